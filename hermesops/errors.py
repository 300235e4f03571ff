"""Every deliberate error, classed by what the operator should do next.

::

    HermesError                 what went wrong, and the next command
    ├── UsageError              asked for something impossible                          2
    ├── RefusedError            a guard or the other side said no; nothing changed      3
    ├── UnavailableError        no answer, or nothing was sent: safe to repeat          4
    ├── UnknownOutcomeError     sent, no answer: it may have happened; look first       5
    ├── PartlyDoneError         some of it is done; the rest is listed                  6
    ├── HaltedError             stopped by a gate                                       8
    └── BrokenInvariantError    our own records contradict each other                  70

Anything else that escapes is a bug: exit 1 with its traceback. Errors neither print, log nor exit.
"""

from collections.abc import Awaitable
from typing import ClassVar

CHANGES_REMAIN = 7
"""Exit code of ``--exit-code`` when changes or work remain; a finding, not an error."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


class HermesError(Exception):
    """Something an operator can act on.

    Args:
        message: What went wrong and where, in one line, without secrets.
        hint: The next command or runbook; empty when the message says it all.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HermesError):
    """Asked for something impossible: a bad name, plan, file or flag."""

    exit_code = 2


class RefusedError(HermesError):
    """A guard of ours or the other side said no; nothing changed."""

    exit_code = 3


class UnavailableError(HermesError):
    """No answer, or nothing was sent: the same command may be repeated safely."""

    exit_code = 4


class UnknownOutcomeError(HermesError):
    """A request was sent and no answer came: it may have happened, so look before repeating."""

    exit_code = 5


class PartlyDoneError(HermesError):
    """Some of it is done; the message lists the rest."""

    exit_code = 6


class HaltedError(HermesError):
    """A gate stopped it."""

    exit_code = 8


class BrokenInvariantError(HermesError):
    """Our own records contradict each other; a person has to look."""

    exit_code = 70


async def problem_of(work: Awaitable[object]) -> str:
    """Wait for one piece of work of several, so that one that fails keeps no other from being done.

    Returns:
        Why it was not done; empty when it was.
    """
    try:
        await work
    except HermesError as error:
        return error.message
    return ""
