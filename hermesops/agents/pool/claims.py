"""Claims a machine of the warm pool for a new instance, when there is one."""

from collections.abc import Awaitable, Callable

from hermesops.agents.pool.decide import Target, ready_for
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, machine_subject
from hermesops.model.fleet.user import User
from hermesops.model.operation import LeaseHeldError
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry


async def claim(
    registry: Registry,
    is_up: Callable[[UnassignedMachine], Awaitable[bool]],
    user: Callable[[], User],
    target: Target,
    *,
    region: str,
    subscription: str = "",
) -> Instance | None:
    """Assign a ready machine to the user; ``None`` when there is none.

    Shrinking a pool takes the same lease. It skips a machine that is leased, not up, or claimed meanwhile.

    Args:
        user: Makes the user's row; called only if there is a machine.
        target: The machine's plan, server type and image; its size is not used.
        subscription: Stripe's id of the paying subscription; empty for none.
    """
    for row in ready_for(registry.unassigned.list(role=MachineRole.WARM), target, region=region):
        try:
            async with LeaseKeeper(registry, machine_subject(row.name)) as turn:
                if not await is_up(row):
                    continue
                instance = registry.assignments.claim(
                    user(),
                    row.name,
                    plan=target.plan,
                    subscription=subscription,
                    lease=turn.lease,
                    why="provision",
                )
        except LeaseHeldError:
            continue
        if instance is not None:
            return instance
    return None
