"""Parses machines' answers to commands; trusts only their shape.

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
    """Convert an error of parsing in the block to ``UnavailableError``: the machine is at fault, not this program.

    ``verb`` is the request, as it reads after "answers to".

    Raises:
        UnavailableError: The answer is malformed.
    """
    try:
        yield
    except _WRONG as error:
        raise UnavailableError(
            f"machine {machine_id} sent a malformed answer to {verb} ({type(error).__name__})",
            hint=Hint(("fleet", "drift", "--deep"), "compares its hermes-node with this program"),
        ) from error


def object_in(done: Completed, machine_id: str, verb: str) -> dict[str, Any]:
    """Parse the JSON object in the last line of hermes-node's output; lines before it are progress.

    Raises:
        UnavailableError: The last line is no JSON object.
    """
    with understood(machine_id, verb):
        return strict_json.parse_object(done.stdout.strip().rpartition(b"\n")[2])


def last_words(done: Completed) -> str:
    """Return the last line that a failed command printed, safe to show."""
    message = (done.stderr.strip() or done.stdout.strip()).rpartition(b"\n")[2]
    line = foreign_text.one_line(message[:4096].decode(errors="replace")).removeprefix("hermes-node: ")
    return line or f"exit {done.exit_code}, without a message"
