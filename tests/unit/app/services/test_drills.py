"""A drill takes a machine that is ready, wherever its pool is."""

from dataclasses import replace
from typing import Any

import pytest

from hermesops.app.services import drills
from hermesops.errors import RefusedError
from hermesops.model.plan import Plan
from hermesops.observability.runbook import faults
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import pooled


async def test_a_drill_takes_a_ready_machine_in_whatever_region_it_is() -> None:
    asked: list[tuple[Plan, str]] = []

    async def admit(_user: str, plan: Plan, *, region: str, is_drill: bool) -> tuple[object, object]:
        assert is_drill
        asked.append((plan, region))
        return ADA, "operation"

    async def run(_operation: object) -> str:
        return "done"

    rows = {Plan.HEAVY: [replace(pooled(0), plan=Plan.HEAVY, region="fsn1")]}
    session: Any = part(
        pools=part(ready=lambda plan: rows.get(plan, [])),
        admission=part(admit=admit),
        operations=part(run=run),
        app=part(registry=part(instances=part(get=lambda _id: ADA))),
    )
    assert await drills.provision(session, faults.fault("gateway-stopped")) is ADA
    assert asked == [(Plan.HEAVY, "fsn1")]
    rows.clear()
    with pytest.raises(RefusedError, match="no machine of a warm pool is ready"):
        await drills.provision(session, faults.fault("gateway-stopped"))
