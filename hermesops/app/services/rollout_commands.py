"""What operators say to a rollout, written as compare-and-swap; and going on with it, or watching who does."""

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
from hermesops.waiting import cancel

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.container_parts.connected import Connected
    from hermesops.rollout.ports import Records

Word = Callable[["Records", OperatorCommand], Transition]
"""One of ``hermesops.rollout.commands``, given what is written."""

Show = Callable[["Records"], None]
"""Takes a look at a rollout."""

_TRIES = 10
_LOOK_S = 1.0


def steer(app: "Container", rollout_id: RolloutId, word: Word, *, why: str) -> Rollout:
    """Say something to a rollout.

    Raises:
        RefusedError: That is impossible as it stands.
        UnavailableError: Its row changed every time; say it again.
    """
    registry = app.registry
    for _ in range(_TRIES):
        found = records_of(registry, rollout_id)
        said = OperatorCommand(registry.actor, why, registry.now())
        transition = word(found, said)
        if registry.rollouts.change(found.rollout, transition.rollout, transition.event, targets=transition.targets):
            return registry.rollouts.get(rollout_id)
    raise UnavailableError(f"rollout {rollout_id} changes faster than it can be told anything", hint="say it again")


async def follow(session: "Connected", rollout_id: RolloutId, show: Show) -> Rollout:
    """Bring a rollout forward until it ends or halts, or watch whoever does; should they stop, go on here.

    Raises:
        HermesError: A step failed; the same command goes on.
    """
    app = session.app
    seen = await _look(app, rollout_id, show)
    if not seen.rollout.state.has_runner:
        return seen.rollout
    operation = await in_db_thread(app.registry.rollouts.reopen_operation, seen.rollout)
    watching = asyncio.ensure_future(watch(app, rollout_id, show))
    try:
        await session.operations.resume(operation, wait_s=inf)
    finally:
        await cancel(watching)
    return (await _look(app, rollout_id, show)).rollout


async def watch(app: "Container", rollout_id: RolloutId, show: Show) -> Rollout:
    """Look at a rollout until it ends or halts, whoever brings it forward."""
    while True:
        seen = await _look(app, rollout_id, show)
        if not seen.rollout.state.has_runner:
            return seen.rollout
        await waiting.pause(_LOOK_S)


async def _look(app: "Container", rollout_id: RolloutId, show: Show) -> "Records":
    """Read a rollout whole, in the registry's thread, and show it."""
    seen = await in_db_thread(records_of, app.registry, rollout_id)
    show(seen)
    return seen
