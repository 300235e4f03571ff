"""Every deliberate error, classed by what the operator should do next.

::

    HermesError                 what went wrong, and the next command
    ├── UsageError              asked for something impossible                          2
    ├── RefusedError            a guard or the other side said no; nothing changed      3
    │   ├── AlreadySoError      it holds already; a command says so, and ends with 0    3
    │   └── LeaseHeldError      another process works on it; in ``model.operation``     4
    ├── UnavailableError        no answer, or nothing was sent: safe to repeat          4
    │   └── NotWrittenError     a disk takes no write: make room there, then repeat     4
    ├── UnknownOutcomeError     sent, no answer: it may have happened; look first       5
    ├── PartlyDoneError         some of it is done; the rest is listed                  6
    ├── HaltedError             stopped by a gate                                       8
    └── BrokenInvariantError    our own records contradict each other                  70

Anything else that escapes is a bug: exit 1 with its traceback. Errors neither print, log nor exit.
"""

import re
import shlex
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import ClassVar

CHANGES_REMAIN = 7
"""Exit code of ``--exit-code`` when changes or work remain; a finding, not an error."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

PLACEHOLDER = re.compile("[A-Z_]+")
"""A word of a command that stands for what the reader knows."""


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with values in the place of its words in capitals; one without a value stays."""
    return PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), text)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a request, in a hint. Each face spells it in its own way: commands as ``--quiet-hours 22-07``.

    Attributes:
        value: An example, or a word in capitals; empty for none.
    """

    name: str
    value: str = ""

    def option(self) -> str:
        """The parameter as an option of a command."""
        return f"--{self.name.replace('_', '-')}{f' {self.value}' if self.value else ''}"


@dataclass(frozen=True, init=False)
class Hint:
    """The next step: commands of hermesops, and the words around them. False when there is nothing to do.

    Args:
        parts: In the order of reading. A tuple is a command: its words after ``hermesops``, each one word for the
            shell whatever is in it; ``USER`` and other words in capitals stand for what the reader knows. Text has
            no command. A parameter is one of the refused request. A hint brings its own parts.
    """

    parts: tuple[str | tuple[str, ...] | Parameter, ...]

    def __init__(self, *parts: "str | tuple[str, ...] | Parameter | Hint") -> None:
        flat = (piece for part in parts for piece in (part.parts if isinstance(part, Hint) else (part,)) if piece)
        object.__setattr__(self, "parts", tuple(flat))

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return self.text()

    def text(self, environment: str = "") -> str:
        """As a person reads it, with commands as they are typed in a shell.

        Args:
            environment: Which one commands name by ``--env``; empty where that is not needed.
        """
        line = ""
        for part in self.parts:
            match part:
                case str():
                    piece = part
                case Parameter():
                    piece = part.option()
                case _:
                    piece = _typed(part, environment)
            line += piece if not line or line[-1] == "(" or piece[0] in ",;:.)" else f" {piece}"
        return line.lstrip("; ")  # what a sign stood behind was empty

    def commands(self, environment: str = "") -> list[str]:
        """Its commands, each as ``text`` has it."""
        return [_typed(part, environment) for part in self.parts if isinstance(part, tuple)]

    def put(self, **values: str) -> "Hint":
        """A hint with values in place of words of its commands: ``USER="ada"``, also in ``user=USER``."""
        return Hint(
            *(tuple(fill(word, values) for word in part) if isinstance(part, tuple) else part for part in self.parts)
        )


def _typed(command: tuple[str, ...], environment: str) -> str:
    # ``env list`` is about all environments.
    named = ("--env", environment) if environment and command[:2] != ("env", "list") else ()
    return " ".join(map(_quoted, ("hermesops", *named, *command)))


def _quoted(word: str) -> str:
    """One word for a shell, without characters that a terminal obeys."""
    return shlex.quote(word if word.isprintable() else word.encode("unicode_escape").decode())


class HermesError(Exception):
    """Something an operator can act on.

    Args:
        message: What went wrong and where, in one line, without secrets.
        hint: What to do next, or a sentence without a command; empty when the message says it all.
        field: The field of the request that is at fault, as ``quiet_hours``; empty for none. The message does not
            repeat it: each face puts its own name of the field in front, a command ``--quiet-hours``.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: Hint | str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = Hint(hint)
        self.field = field


class UsageError(HermesError):
    """Asked for something impossible: a bad name, plan, file or flag."""

    exit_code = 2


class RefusedError(HermesError):
    """A guard of ours or the other side said no; nothing changed."""

    exit_code = 3


class AlreadySoError(RefusedError):
    """The requested state holds already and nothing was opened; a command reports that and succeeds."""


class UnavailableError(HermesError):
    """No answer, or nothing was sent: the same command may be repeated safely."""

    exit_code = 4


class NotWrittenError(UnavailableError):
    """A disk is full, read-only or broken, so that something was not written: make room there, then repeat."""


class UnknownOutcomeError(HermesError):
    """A request was sent and no answer came: it may have happened, so look before repeating."""

    exit_code = 5


class PartlyDoneError(HermesError):
    """Some of it is done; the message lists the rest."""

    exit_code = 6


class HaltedError(HermesError):
    """A check stopped the work before its end; the message names the check."""

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


def require_reason(reason: str, *command: str) -> None:
    """Go on only with a reason for the audit log; ``command`` is its words without it, for the hint.

    Raises:
        UsageError: There is no reason.
    """
    if not reason.strip():
        raise UsageError("missing: say why", hint=Hint((*command, "--reason", "WHY")), field="reason")
