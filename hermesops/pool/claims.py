"""Claims a machine of the warm pool for a new instance, when there is one."""

from collections.abc import Awaitable, Callable

from hermesops.model.instance import Instance
from hermesops.model.operation import LeaseHeldError
from hermesops.model.spare import Purpose, Spare, spare_subject
from hermesops.model.user import User
from hermesops.operations.lease import LeaseKeeper
from hermesops.pool.decide import Target, ready_for
from hermesops.registry import Registry


async def claim(
    registry: Registry,
    is_up: Callable[[Spare], Awaitable[bool]],
    user: Callable[[], User],
    target: Target,
    *,
    region: str,
) -> Instance | None:
    """Make a ready machine the user's, or ``None`` when there is none.

    Shrinking a pool takes the same lease. A machine that is leased, not up, or claimed meanwhile is passed over.

    Args:
        user: Makes the user's row; called when there is a machine.
        target: What the machine has to be; its size does not matter.
    """
    for spare in ready_for(registry.spares.list(purpose=Purpose.POOL), target, region=region):
        try:
            async with LeaseKeeper(registry, spare_subject(spare.name)) as turn:
                if not await is_up(spare):
                    continue
                instance = registry.assignments.claim(
                    user(), spare.name, plan=target.plan, lease=turn.lease, why="provision"
                )
        except LeaseHeldError:
            continue
        if instance is not None:
            return instance
    return None
