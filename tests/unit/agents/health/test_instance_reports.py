"""One instance as vendor, machine, registry and monitoring know it."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.health import instance_reports
from hermesops.agents.health.instance_reports import InstanceAlerts, InstanceReport, InstanceReports, OwnProvider
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.suspension import Suspension
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.rollout.release import RecordedRelease, ReleaseId
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.views.agents.instance_reports import report as instance_report
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

LISTED = MachineState(MachineId("m"), MachineStatus.READY, "starter", "hel1", price_monthly=Decimal(9))
Price = Callable[[str, str], Awaitable[Decimal | None]]


async def nothing(*_: object) -> Any:  # noqa: ANN401 - stands for any answer
    return None


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def registry(tmp_path: Path, clock: TurnedClock) -> Registry:
    return registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return registry.instances.set_status(placed(registry, "ada").id, InstanceStatus.RUNNING)


async def report_of(
    registry: Registry,
    instance: Instance,
    *,
    machine: MachineState | None = None,
    alerts: Callable[..., Awaitable[Any]] | None = None,
    price: Price = nothing,
    vendor_problem: str = "",
) -> InstanceReport:
    async def observe(instance_id: InstanceId) -> Observation:
        assert instance_id == instance.id
        if vendor_problem:
            raise UnavailableError(vendor_problem)
        return Observation(instance, machine)

    has_monitoring = alerts is not None

    async def unanswered(*_: object, **__: object) -> Any:  # noqa: ANN401 - it never answers
        raise UnavailableError("Prometheus does not answer")

    client: Any = part(ask=unanswered) if has_monitoring else None
    reports = InstanceReports(registry, observe, lambda: client, lambda: part(list=alerts), price)
    return await reports.of(instance)


async def test_health_suspension_and_trends_stand_beside_what_was_observed(
    registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    suspended = registry.operations.open(
        OperationKind.SUSPEND, f"instance/{ada.id}", instance_id=ada.id, intent={"reason": "left us"}
    )
    registry.operations.finish(suspended.id, OperationStatus.DONE, outcome="suspended")
    report = await report_of(registry, ada)
    assert report.observation.instance == ada
    assert report.region == "hel1"
    assert report.health is not None
    assert report.health.condition is Condition.DOWN
    assert report.suspension == Suspension(clock.timestamp, "left us")
    assert report.trends.problem == "there is no monitoring here"
    assert report.alerts == InstanceAlerts(problem="there is no monitoring here")
    assert (report.work, report.release, report.backup, report.price) == ((), None, None, None)


async def test_the_release_and_open_operations_are_those_of_the_registry(
    registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    registry.rollout_targets.record_release(ada.id, ReleaseId("0.19.0-abc"))
    subject = instance_subject(ada.id)
    restart = registry.operations.open(OperationKind.RESTART, subject, instance_id=ada.id, intent={"reason": "slow"})
    report = await report_of(registry, ada)
    assert report.release == RecordedRelease(ReleaseId("0.19.0-abc"), clock.timestamp)
    assert [(open_work.operation.id, open_work.holder) for open_work in report.work] == [(restart.id, "")]
    registry.leases.take(subject, "another process")
    report = await report_of(registry, ada)
    assert [open_work.holder for open_work in report.work] == ["another process"]


async def test_the_price_is_that_of_its_machine_else_of_the_list(registry: Registry, ada: Instance) -> None:
    async def price(region: str, server_type: str) -> Decimal:
        assert (region, server_type) == ("hel1", "starter")
        return Decimal(8)

    unpriced = MachineState(LISTED.id, LISTED.status, "starter", "hel1")
    for machine, expected in ((LISTED, Decimal(9)), (unpriced, Decimal(8)), (None, None)):
        assert (await report_of(registry, ada, machine=machine, price=price)).price == expected


async def test_alerts_and_a_price_that_do_not_come_are_unknown_and_delay_nothing(
    registry: Registry, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_reports, "_WITHIN_S", 0.01)
    never = asyncio.Event()

    async def hangs(*_: object, **__: object) -> Any:  # noqa: ANN401 - it never answers
        await never.wait()

    unpriced = MachineState(LISTED.id, LISTED.status, "starter", "hel1")
    report = await report_of(registry, ada, machine=unpriced, alerts=hangs, price=hangs)
    assert report.alerts.problem.startswith("not done after 0.01 s")
    assert report.price is None


@pytest.mark.parametrize("problem", ["", "the registry's key is missing"])
async def test_the_users_own_provider_is_named_or_unknown(registry: Registry, ada: Instance, problem: str) -> None:
    choice = ProviderChoice("openai", "gpt-5.2", "")

    def provider(instance: Instance) -> ProviderChoice:
        assert instance == ada
        if problem:
            raise UnavailableError(problem)
        return choice

    async def observe(_: object) -> Observation:
        return Observation(ada, LISTED)

    reports = InstanceReports(registry, observe, lambda: None, part, nothing, provider)
    report = await reports.of(ada)
    assert report.provider == OwnProvider(None if problem else choice, problem)
    shape = instance_report(report, registry.now())["instance"]
    assert isinstance(shape, dict)
    assert shape["model_provider_problem"] == (problem or None)
    assert (shape["model_provider"] or {}).get("state") == (None if problem else "unknown")


async def test_alerts_about_it_are_asked_for(registry: Registry, ada: Instance) -> None:
    async def alerts(*, instance: Instance) -> tuple[str, ...]:
        assert instance == ada
        return ("an alert",)

    assert list(map(str, (await report_of(registry, ada, alerts=alerts)).alerts.open)) == ["an alert"]


async def test_the_registry_s_part_is_shown_while_the_vendor_is_down(
    registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    registry.rollout_targets.record_release(ada.id, ReleaseId("0.19.0-abc"))
    report = await report_of(registry, ada, vendor_problem="JustAVPS does not answer")
    assert report.problem == "JustAVPS does not answer"
    assert report.release == RecordedRelease(ReleaseId("0.19.0-abc"), clock.timestamp)
    assert report.health is not None
    assert report.health.condition is Condition.UNKNOWN, "a vendor that is silent shows no machine that is gone"
    assert (report.observation, report.price) == (Observation(ada, None), None)
