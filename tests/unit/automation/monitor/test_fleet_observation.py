"""What ``doctor`` says of the ways to machines, by what they answer."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from hermesops.automation.doctor.environment import check_all
from hermesops.automation.monitor.fleet_observation import reach_machines
from hermesops.errors import UnavailableError
from hermesops.model.check import Check, Verdict
from hermesops.model.fleet.health import GatewayHealth
from hermesops.vendor.channel import Completed
from hermesops.vendor.channel.errors import translated
from hermesops.vendor.justavps import errors as vendor
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fakes.parts import part

CALL = "POST /machines/m1/toolbox/process/execute"
ADA = part(id="i1", busy=False, user="ada", reported_gateway=GatewayHealth.OK)


async def seen_by_doctor(toolbox: Exception | None = None, api: Exception | None = None) -> Check:
    """The row of a fleet of one machine whose toolbox, or whose vendor's API, fails so."""

    async def machine(_: object) -> object:
        if api:
            raise api
        return part(id="m1", status=MachineStatus.READY)

    async def run(*_: object, **__: object) -> Completed:
        doing: AbstractContextManager[None] = translated("m1", "testing") if toolbox else nullcontext()
        with doing:
            if toolbox:
                raise toolbox
        return Completed(0, b"{}", b"")

    async def health(*_: object) -> GatewayHealth:
        return GatewayHealth.OK

    registry: Any = part(
        fleet=part(expected=lambda **_: part(instances=[ADA])), instances=part(get=lambda _: part(id="i1"))
    )
    client: Any = part(machine=machine, channel=lambda _: part(run=run), health=health)
    [check] = await check_all({"machines": lambda: reach_machines(registry, client)})
    return check


async def test_both_ways_that_answer_are_named() -> None:
    check = await seen_by_doctor()
    assert (check.verdict, check.seen) == (Verdict.OK, "ada answer by toolbox and proxy")


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_toolbox_that_answers_5xx_while_the_api_answers_has_failed(status: int) -> None:
    check = await seen_by_doctor(toolbox=vendor.ChangeServerError(CALL, "said", status=status))
    assert (check.verdict, check.seen) == (Verdict.FAILED, "no machine answers by toolbox; asked: ada")
    assert "vendor-down" in str(check.hint)


async def test_without_an_answer_of_the_api_nothing_is_known_of_the_ways() -> None:
    check = await seen_by_doctor(api=UnavailableError("no route"))
    assert (check.verdict, check.seen) == (Verdict.UNKNOWN, "JustAVPS returns no machine; probed instances: ada")
