"""Ports for narration (lines for the operator) and for log entries; the subject of a line of a bulk command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

Reporter = Callable[[str], None]
"""Takes a line of narration."""

_subject: ContextVar[str] = ContextVar("_subject", default="")
"""User or other subject that this task works on in a bulk command; empty outside of one."""


@contextmanager
def about(subject: str) -> Iterator[None]:
    """Let all narration of this task, and of tasks that it starts, stand behind a subject's name."""
    before = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(before)


def with_subject(line: str) -> str:
    """A line behind the name of its subject, as ``ben: backing up``; unchanged outside of bulk commands."""
    subject = _subject.get()
    return f"{subject}: {line}" if subject else line


class Warn(Protocol):
    """Logs a problem that does not stop the work."""

    def __call__(self, event: str, **fields: object) -> None:
        """Write one entry, with its fields, into the log."""


def counted(count: int, noun: str) -> str:
    """``1 cell``, ``2 cells``: a number with its noun."""
    return f"{count} {noun if count == 1 else f'{noun}s'}"


def warn(event: str, **fields: object) -> None:
    """Write a warning into the process's log."""
    import structlog  # noqa: PLC0415 - takes as long as all the rest of a short command

    structlog.get_logger("hermesops").warning(event, **fields)
