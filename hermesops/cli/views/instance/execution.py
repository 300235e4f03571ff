"""Results of a command on several machines. Their output is foreign text, and bounded."""

from typing import TYPE_CHECKING

from hermesops.errors import HermesError
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.vendor.channel import Completed

COLUMNS = ("user", "exit_code", "problem")

_MOST_BYTES = 64 * 1024
_MOST_LINES = 200
"""Of the output of one machine; the rest is left out, and how much."""


def lines(outcome: "Outcome[Completed]") -> list[str]:
    """The output of one machine, stdout before stderr, each line behind its user."""
    user, done = outcome.instance.title, outcome.result
    if isinstance(done, HermesError):
        return [f"{user}: {unbroken(done.message)}"]
    text, left_out = _bounded(done.stdout + (b"\n" if done.stdout and done.stderr else b"") + done.stderr)
    shown = [f"{user}: {unbroken(line)}" for line in text.splitlines() if line.strip()]
    return [*shown, *([f"{user}: … {left_out} bytes more are left out"] if left_out else [])]


def shape(outcome: "Outcome[Completed]") -> dict[str, object]:
    """The JSON object of one machine's output; ``left_out`` counts omitted bytes of both streams."""
    done = outcome.result
    shape = {"user": outcome.instance.title, "instance_id": outcome.instance.id, "exit_code": exit_code(outcome)}
    if isinstance(done, HermesError):
        return {**shape, "error": done.message, "hint": done.hint or None, "stdout": "", "stderr": "", "left_out": 0}
    (stdout, first), (stderr, second) = _bounded(done.stdout), _bounded(done.stderr)
    return {**shape, "error": None, "hint": None, "stdout": stdout, "stderr": stderr, "left_out": first + second}


def row(outcome: "Outcome[Completed]") -> dict[str, object]:
    """One line of the table of results."""
    done = outcome.result
    problem = done.message if isinstance(done, HermesError) else None
    return {"user": outcome.instance.title, "exit_code": exit_code(outcome), "problem": problem}


def exit_code(outcome: "Outcome[Completed]") -> int:
    """The command's exit code; where it was not run, that of the error."""
    return outcome.result.exit_code


def _bounded(output: bytes) -> tuple[str, int]:
    """The first lines of an output, and how many bytes follow them."""
    beginning = b"".join(output[:_MOST_BYTES].splitlines(keepends=True)[:_MOST_LINES])
    return beginning.decode(errors="replace"), len(output) - len(beginning)
