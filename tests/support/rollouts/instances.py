"""Instances as rollouts see them, built by name."""

from dataclasses import replace
from datetime import datetime

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.ids import CellName, ImageId, InstanceId
from hermesops.model.plan import Plan
from tests.support.fakes.instances import ADA
from tests.support.rollouts.rows import AT


def instance(
    user: str,
    *,
    status: InstanceStatus = InstanceStatus.RUNNING,
    plan: Plan = Plan.LIGHT,
    cell: str = "cell1",
    image: str = "",
    created_at: datetime = AT,
) -> Ordered:
    """The instance of a user; its id is the user's name."""
    row = replace(
        ADA,
        id=InstanceId(user),
        user_alias=user,
        plan=plan,
        cell=CellName(cell),
        status=status,
        created_at=created_at,
    )
    return Ordered(row, "cx22", "hel1", ImageId(image) if image else None, wanted=True)
