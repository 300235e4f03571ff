"""Whether a pool is to be filled, as far as rows alone tell. Pure; what machines say is asked by whoever fills it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from hermesops.model.operation import Operation
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus
from hermesops.pool.decide import Target

_REST = timedelta(minutes=10)
"""How long a pool is left alone after somebody filled it, or tried to: what was refused will be refused again."""


def is_short(targets: Sequence[Target], spares: Sequence[Spare], *, room: int) -> bool:
    """Whether the rows alone say that a pool has to be filled, shrunk or renewed.

    Args:
        targets: What the pool should hold.
        spares: The cell's machines beside those of instances.
        room: How many machines more the cell takes.
    """
    pool = [spare for spare in spares if spare.purpose is Purpose.POOL]
    if any(not spare.wanted or spare.status is not SpareStatus.READY for spare in pool):
        return True
    wanted = {target.plan: target for target in targets}
    for plan in Plan:
        held = [spare for spare in pool if spare.plan is plan]
        target = wanted.get(plan)
        if target is None or target.image_id is None:
            if target is None and held:
                return True
            continue
        stale = any((one.image_id, one.server_type) != (target.image_id, target.server_type) for one in held)
        if stale or len(held) > target.size or (len(held) < target.size and room):
            return True
    return False


def is_at_rest(fills: Sequence[Operation], now: datetime) -> bool:
    """Whether nobody fills a pool or has just done so.

    Args:
        fills: What was ever asked for it.
        now: The time.
    """
    return all(fill.status.has_ended and fill.updated_at <= now - _REST for fill in fills)
