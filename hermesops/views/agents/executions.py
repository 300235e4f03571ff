"""Shapes of a command's runs on several machines. Their output is foreign text, and bounded."""

from typing import TYPE_CHECKING

from hermesops.errors import HermesError

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.vendor.channel import Completed

_MOST_BYTES = 64 * 1024
_MOST_LINES = 200
"""Of the output of one machine; the rest is left out, and how much."""


def execution(outcome: "Outcome[Completed]") -> dict[str, object]:
    """The JSON object of one machine's output; ``left_out`` counts omitted bytes of both streams."""
    done = outcome.result
    shape = {"user": outcome.instance.title, "instance_id": outcome.instance.id, "exit_code": done.exit_code}
    if isinstance(done, HermesError):
        return {**shape, "error": done.message, "hint": done.hint or None, "stdout": "", "stderr": "", "left_out": 0}
    (stdout, first), (stderr, second) = bounded(done.stdout), bounded(done.stderr)
    return {**shape, "error": None, "hint": None, "stdout": stdout, "stderr": stderr, "left_out": first + second}


def completed(done: "Completed") -> dict[str, object]:
    """The whole output of a command on one machine."""
    stdout, stderr = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
    return {"exit_code": done.exit_code, "stdout": stdout, "stderr": stderr}


def bounded(output: bytes) -> tuple[str, int]:
    """The first lines of an output, and how many bytes follow them."""
    beginning = b"".join(output[:_MOST_BYTES].splitlines(keepends=True)[:_MOST_LINES])
    return beginning.decode(errors="replace"), len(output) - len(beginning)
