"""What a machine answered to a command, believed as far as its shape goes and no further.

Root on a machine may be hostile, and so may be whoever wrote what hermes-node repeats. Whatever is wrong with an answer
is the same to us: that machine gives none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermesops.channel.interface import Completed
from hermesops.errors import UnavailableError
from hermesops.node.untrusted import foreign_text, strict_json

_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading an answer of another shape than ours raises: of missing names, other types, numbers without bounds."""


@contextmanager
def understood(machine_id: str, verb: str) -> Iterator[None]:
    """Read an answer of a machine; what is wrong with it is no bug of ours.

    Args:
        machine_id: Whose.
        verb: What it was asked, as it reads after "answers to".

    Raises:
        UnavailableError: Something is wrong with it.
    """
    try:
        yield
    except _WRONG as error:
        raise UnavailableError(
            f"machine {machine_id} answers to {verb} what is not understood ({type(error).__name__})",
            hint="hermesops fleet drift --deep compares its hermes-node with this program",
        ) from error


def object_in(done: Completed, machine_id: str, verb: str) -> dict[str, Any]:
    """The object that a command of hermes-node printed as its last line; before it, it tells of progress.

    Raises:
        UnavailableError: It printed something else.
    """
    with understood(machine_id, verb):
        return strict_json.parse_object(done.stdout.strip().rpartition(b"\n")[2])


def last_words(done: Completed) -> str:
    """Why a command of a machine failed, as far as it says: one line, fit to be shown."""
    said = (done.stderr.strip() or done.stdout.strip()).rpartition(b"\n")[2]
    line = foreign_text.one_line(said[:4096].decode(errors="replace")).removeprefix("hermes-node: ")
    return line or f"exit {done.exit_code}, and not a word"
