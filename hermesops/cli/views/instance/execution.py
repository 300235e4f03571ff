"""Lines and table of a command's runs on several machines. Their output is foreign text, and bounded."""

from typing import TYPE_CHECKING

from hermesops.errors import HermesError
from hermesops.views.agents.executions import bounded
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.vendor.channel import Completed

COLUMNS = ("user", "exit_code", "problem")


def lines(outcome: "Outcome[Completed]") -> list[str]:
    """The output of one machine, stdout before stderr, each line behind its user."""
    user, done = outcome.instance.title, outcome.result
    if isinstance(done, HermesError):
        return [f"{user}: {unbroken(done.message)}"]
    text, left_out = bounded(done.stdout + (b"\n" if done.stdout and done.stderr else b"") + done.stderr)
    shown = [f"{user}: {unbroken(line)}" for line in text.splitlines() if line.strip()]
    return [*shown, *([f"{user}: … {left_out} bytes more are left out"] if left_out else [])]


def row(outcome: "Outcome[Completed]") -> dict[str, object]:
    """One line of the table of results."""
    done = outcome.result
    problem = done.message if isinstance(done, HermesError) else None
    return {"user": outcome.instance.title, "exit_code": done.exit_code, "problem": problem}
