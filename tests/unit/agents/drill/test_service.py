"""A drill takes a machine that is ready, wherever its pool is, and destroys it however it ends."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hermesops.agents.drill.service import DrillMachines, RunbookDrills, Stage, user_of
from hermesops.base import assets
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.plan import Plan
from hermesops.observability.runbook import faults
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.fault import Fault
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import pooled


async def test_a_drill_takes_a_ready_machine_in_whatever_region_it_is() -> None:
    calls: list[tuple[Plan, str]] = []

    async def admit(_user: str, plan: Plan, *, region: str, is_drill: bool) -> tuple[object, object]:
        assert is_drill
        calls.append((plan, region))
        return ADA, "operation"

    async def run(_operation: object) -> str:
        return "done"

    rows = {Plan.HEAVY: [replace(pooled(0), plan=Plan.HEAVY, region="fsn1")]}
    machines = DrillMachines(
        registry=part(instances=part(get=lambda _id: ADA)),
        pools=part(ready=lambda plan: rows.get(plan, [])),
        admission=part(admit=admit),
        operations=part(run=run),
        client=part(),
    )
    assert await machines.provision(faults.fault("gateway-stopped")) is ADA
    assert calls == [(Plan.HEAVY, "fsn1")]
    rows.clear()
    with pytest.raises(RefusedError, match="no machine of a warm pool is ready"):
        await machines.provision(faults.fault("gateway-stopped"))


FAULT = faults.fault("gateway-stopped")
DESTROY = (
    "instance",
    "terminate",
    user_of(FAULT),
    "--now",
    "--without-backup",
    "--yes",
    "--reason",
    "the drill is over",
)


class Drills:
    """Drills whose commands all end with one exit code."""

    def __init__(self, *, left_over: bool = False, exit_code: int = 1, is_local: bool = True) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.said: list[Hint] = []
        self.noted: list[tuple[str, dict[str, Any]]] = []
        self._left_over, self._exit_code = left_over, exit_code
        registry = part(
            instances=part(find=self._find, of_user=lambda _id: ADA),
            operations=part(list=lambda **_: []),
            audit=part(append=lambda _action, subject, *, after, **_: self.noted.append((subject, after))),
        )
        folder = assets.folder("runbooks")
        self.drills = RunbookDrills(registry, is_local, folder, self._provision, self._at_vendor, self._command)
        self.stage = Stage(asyncio.run, self.said.append, lambda _: None)

    def _find(self, _text: str) -> Any:  # noqa: ANN401 - stands for an instance
        if not self._left_over:
            raise UsageError("no such user")
        return ADA

    async def _provision(self, _fault: Fault) -> Any:  # noqa: ANN401 - stands for an instance
        self.ran.append(("provision",))
        return ADA

    async def _at_vendor(self, *_: object) -> None:
        raise AssertionError

    async def _command(self, words: tuple[str, ...], _show: object) -> Ended:
        self.ran.append(words)
        return Ended(self._exit_code, "")


def test_a_drill_that_fails_is_written_to_the_audit_and_its_machine_destroyed() -> None:
    world = Drills()
    done = world.drills.run(FAULT, world.stage)
    assert done.drilled is None
    assert done.failure is not None
    ((subject, after),) = world.noted
    assert (subject, after["problem"]) == ("drill/gateway-stopped", done.failure.message)
    assert world.ran[0] == ("provision",)
    assert world.ran[-1] == DESTROY
    assert world.said[-1] == Hint(DESTROY, "destroys the machine"), "its end failed as well"


def test_what_a_killed_drill_left_is_destroyed_before_the_next_begins() -> None:
    world = Drills(left_over=True)
    world.drills.run(FAULT, world.stage)
    assert world.ran[:2] == [DESTROY, ("provision",)]


def test_faults_that_no_drill_here_brings_about_are_refused() -> None:
    assert Drills().drills.choose("gateway-stopped") is FAULT
    with pytest.raises(RefusedError, match="affects more than one machine"):
        Drills().drills.choose("gateways-stopped")
    local = next(fault for fault in faults.FAULTS if fault.needs_local and fault.is_drilled)
    assert Drills().drills.choose(local.name) is local
    with pytest.raises(RefusedError, match="in the local world only"):
        Drills(is_local=False).drills.choose(local.name)
