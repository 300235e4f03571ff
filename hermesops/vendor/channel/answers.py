"""Parses what a machine answered to a command; only its shape is trusted.

Root on a machine may be hostile, and so may the author of text that hermes-node repeats. A malformed answer counts as
no answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermesops.errors import Hint, UnavailableError
from hermesops.vendor.channel.interface import Completed
from hermesops.wire import foreign_text, strict_json

_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What parsing an answer of another shape raises: missing names, other types, huge numbers."""


@contextmanager
def understood(machine_id: str, verb: str) -> Iterator[None]:
    """Parse an answer of a machine in the block; a malformed one is the machine's fault, not a bug.

    ``verb`` is what it was asked, as it reads after "answers to".

    Raises:
        UnavailableError: It is malformed.
    """
    try:
        yield
    except _WRONG as error:
        raise UnavailableError(
            f"machine {machine_id} answers to {verb} what is not understood ({type(error).__name__})",
            hint=Hint(("fleet", "drift", "--deep"), "compares its hermes-node with this program"),
        ) from error


def object_in(done: Completed, machine_id: str, verb: str) -> dict[str, Any]:
    """The object that a command of hermes-node printed as its last line; lines before it are progress.

    Raises:
        UnavailableError: It printed something else.
    """
    with understood(machine_id, verb):
        return strict_json.parse_object(done.stdout.strip().rpartition(b"\n")[2])


def last_words(done: Completed) -> str:
    """Why a command of a machine failed, in its own words: one line, safe to show."""
    said = (done.stderr.strip() or done.stdout.strip()).rpartition(b"\n")[2]
    line = foreign_text.one_line(said[:4096].decode(errors="replace")).removeprefix("hermes-node: ")
    return line or f"exit {done.exit_code}, and not a word"
