"""Ctrl-C: before a command begins it ends the process, then it lets the command clean up. Light, as ``streams`` is."""

import _signal  # type: ignore[import-not-found]  # ``signal`` takes longer to import than ``--version`` may take
import os
import sys

_SAID = "interrupted; the same command continues where it stopped"
_EXIT_CODE = 130
"""``INTERRUPTED`` of ``hermesops.errors``, which takes long to import."""


class InterruptedByOperatorError(Exception):
    """Ctrl-C while a command ran. Typer turns Python's own exception into an exit without a word."""


def end_at_once() -> None:
    """From now on Ctrl-C ends this process; an exception would come out of the middle of an import."""
    if not _is_ignored():
        _signal.signal(_signal.SIGINT, _end)


def raise_it() -> None:
    """From now on Ctrl-C raises ``KeyboardInterrupt``, as Python does and asyncio expects."""
    if not _is_ignored():
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def say() -> int:
    """Explain the effect of Ctrl-C on stderr; returns the exit code."""
    sys.stderr.write(f"{_SAID}\n")
    sys.stderr.flush()
    return _EXIT_CODE


def _is_ignored() -> bool:
    return _signal.getsignal(_signal.SIGINT) is _signal.SIG_IGN  # a shell has its background commands do so


def _end(_number: int, _frame: object) -> None:
    os._exit(say())
