"""``hermesops wait``: wait until agents are healthy, or in another state."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import complain, result
from hermesops.cli.options.instances import All, Users, Where, choose_instances
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.agents import instances as shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.health.instance_waits import State, Waited
    from hermesops.app import Container
    from hermesops.errors import HermesError
    from hermesops.model.fleet.instance import Instance

_STATES: "tuple[State, ...]" = (
    *InstanceStatus,
    *(condition for condition in Condition if condition is not Condition.UNKNOWN),
)


def wait(
    users: Users = None,
    state: Annotated[
        str, typer.Option("--for", help=f"The state: {', '.join(name.value for name in _STATES)}.")
    ] = Condition.HEALTHY.value,
    where: Where = "",
    everything: All = False,
    timeout: Annotated[str, typer.Option(help="How long to wait, as 90s or 5m.")] = "5m",
) -> int:
    """Wait until agents are healthy, or in another state. Exits with 0 once all are, with 4 when the time is up.

    A status (running, suspended …) is read in the registry; for a health, machine and agent are asked again and again.
    The state of an agent that should not run is its status. A terminated agent gets into no other state: that ends
    with 3. The last states are printed in any case; every ten seconds at most, it says for whom it waits.
    """
    goal = _state(state)
    timeout_s = values.seconds(timeout, "--timeout")
    container = context.compose()
    instances = choose_instances(container, users, where, everything=everything, only_running=False)
    waited = _wait(container, instances, goal, timeout_s)
    result("wait", shapes.waits(goal, timeout_s, waited), [_line(last) for last in waited])
    failure = _failure(waited, goal, timeout_s)
    if failure is None:
        return 0
    complain(failure)
    return failure.exit_code


def _state(text: str) -> "State":
    chosen = next((known for known in _STATES if known == text.strip()), None)
    if chosen is None:
        raise UsageError(f"--for {text!r}: one of {', '.join(known.value for known in _STATES)}")
    return chosen


def _wait(
    container: "Container", instances: "Sequence[Instance]", state: "State", timeout_s: float
) -> "tuple[Waited, ...]":
    return context.run_connected(
        container, lambda connected: connected.instance_waits.until(instances, state, timeout_s)
    )


def _failure(waited: "Sequence[Waited]", state: "State", timeout_s: float) -> "HermesError | None":
    from hermesops.base.waiting import WaitExpiredError

    left = [last for last in waited if not last.is_reached]
    if not left:
        return None
    if ended := [last.instance.title for last in left if last.is_impossible]:
        return RefusedError(f"not {state} any more: {', '.join(ended)}", hint=Hint(("instance", "list", "--all")))
    states = ", ".join(f"{last.instance.title} {last.state}" for last in left)
    what = f"{len(left)} of {len(waited)} to be {state}" if len(waited) > 1 else f"{states.split()[0]} to be {state}"
    failure = WaitExpiredError(what, timeout_s, states)
    failure.hint = Hint(("instance", "show", left[0].instance.title))
    return failure


def _line(waited: "Waited") -> str:
    reason = f", {waited.detail}" if waited.detail and not waited.is_reached else ""
    return f"{waited.instance.title}: {waited.state} after {waited.waited_s:.0f} s{reason}"
