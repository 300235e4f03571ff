"""The log of a process: structlog's entries on standard error, with tracebacks that show no values.

Without ``open_log``, structlog 25 prints a traceback by rich wherever that is installed, with the local variables of
each frame (``structlog.dev.RichTracebackFormatter.show_locals``): keys, prompts, rows of users. Each process that may
log an error calls it first.
"""

import sys
from collections.abc import Sequence
from typing import Any

import structlog

AS_JSON: Sequence[Any] = (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
"""One JSON object a line, for services."""


def for_terminal(*, coloured: bool) -> Sequence[Any]:
    """Processors that render entries for a person at a terminal."""
    return (structlog.dev.ConsoleRenderer(colors=coloured, exception_formatter=structlog.dev.plain_traceback),)


def open_log(level: int, rendered: Sequence[Any]) -> None:
    """Send the process's entries to standard error.

    Args:
        level: Lowest level that is written, as of ``logging``.
        rendered: Processors that turn an entry into text, the last one included.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
