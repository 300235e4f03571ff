"""Gives operators' commands to a rollout, runs it in this process, and watches it."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from hermesops import waiting
from hermesops.app.adapters.rollout_store import records_of
from hermesops.errors import UnavailableError
from hermesops.model.rollout import Rollout, RolloutId
from hermesops.operations.db_thread import in_db_thread
from hermesops.rollout.commands import OperatorCommand, Transition
from hermesops.rollout.events import to_row
from hermesops.waiting import cancel

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.app.container_parts.unconnected import Unconnected
    from hermesops.rollout.ports import Records

Decide = Callable[["Records", OperatorCommand], Transition]
"""Calls one of ``hermesops.rollout.commands``."""

Show = Callable[["Records"], None]
"""Shows a rollout."""

_TRIES = 10
_LOOK_S = 1.0


def give_command(app: "Unconnected", rollout_id: RolloutId, decide: Decide, *, why: str) -> Rollout:
    """Write what a command makes of a rollout, by compare-and-swap.

    Raises:
        RefusedError: The rollout's state does not allow it.
        UnavailableError: Its row changed every time; give the command again.
    """
    registry = app.registry
    for _ in range(_TRIES):
        found = records_of(registry, rollout_id)
        transition = decide(found, OperatorCommand(registry.actor, why, registry.now()))
        event = to_row(transition.event)
        if registry.rollouts.change(found.rollout, transition.rollout, event, targets=transition.targets):
            return registry.rollouts.get(rollout_id)
    raise UnavailableError(f"rollout {rollout_id} changed during each of {_TRIES} tries", hint="give the command again")


async def follow(session: "Connected", rollout_id: RolloutId, show: Show) -> Rollout:
    """Run a rollout until it ends or halts, or watch the process that runs it; should that stop, run it here.

    Raises:
        HermesError: A step failed; the same command goes on.
    """
    app = session.app
    seen = await _read(app, rollout_id, show)
    if not seen.rollout.state.has_runner:
        return seen.rollout
    operation = await in_db_thread(app.registry.rollouts.reopen_operation, seen.rollout)
    watching = asyncio.ensure_future(watch(app, rollout_id, show))
    try:
        await session.operations.resume(operation, wait_s=inf)
    finally:
        await cancel(watching)
    return (await _read(app, rollout_id, show)).rollout


async def watch(app: "Unconnected", rollout_id: RolloutId, show: Show) -> Rollout:
    """Show a rollout until it ends or halts, whichever process runs it."""
    while True:
        seen = await _read(app, rollout_id, show)
        if not seen.rollout.state.has_runner:
            return seen.rollout
        await waiting.pause(_LOOK_S)


async def _read(app: "Unconnected", rollout_id: RolloutId, show: Show) -> "Records":
    """Read a rollout and show it."""
    seen = await in_db_thread(records_of, app.registry, rollout_id)
    show(seen)
    return seen
