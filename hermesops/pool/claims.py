"""Claims a machine of the warm pool for a new instance, when there is one."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from hermesops.model.instance import Instance
from hermesops.model.operation import LeaseHeldError
from hermesops.model.spare import Purpose, Spare, spare_subject
from hermesops.model.user import User
from hermesops.pool.decide import Target, ready_for
from hermesops.pool.ports import HeldLease
from hermesops.registry import Registry


class Claims:
    """Claims machines of pools.

    Args:
        is_up: Whether a machine is up now.
        hold_lease: Holds the lease of a subject while its context lasts; refused at once when it is held.
    """

    def __init__(
        self,
        registry: Registry,
        is_up: Callable[[Spare], Awaitable[bool]],
        hold_lease: Callable[[str], AbstractAsyncContextManager[HeldLease]],
    ) -> None:
        self._registry = registry
        self._is_up = is_up
        self._hold_lease = hold_lease

    async def claim(self, user: Callable[[], User], target: Target, *, region: str) -> Instance | None:
        """Make a ready machine the user's, or ``None`` when there is none.

        Shrinking a pool takes the same lease. A machine that is leased, not up, or claimed meanwhile is passed over.

        Args:
            user: Makes the user's row; called when there is a machine.
            target: What the machine has to be; its size does not matter.
            region: Where it has to be.
        """
        for spare in ready_for(self._registry.spares.list(purpose=Purpose.POOL), target, region=region):
            try:
                async with self._hold_lease(spare_subject(spare.name)) as turn:
                    if not await self._is_up(spare):
                        continue
                    instance = self._registry.assignments.claim(
                        user(), spare.name, plan=target.plan, lease=turn.lease, why="provision"
                    )
            except LeaseHeldError:
                continue
            if instance is not None:
                return instance
        return None
