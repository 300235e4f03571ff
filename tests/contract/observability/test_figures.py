"""Figures for operators out of a real Prometheus: each expression is one that it takes, and says what it should."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.health.fleet import fleet_selector
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.selector import Selector
from hermesops.observability.telemetry.client import MonitoringClient, WrongQuestionError
from hermesops.observability.telemetry.metrics import figures
from hermesops.observability.telemetry.metrics.figures import Figure
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.observability.telemetry.metrics.top import FleetTop, Top
from hermesops.store.registry import Registry
from tests.support.real.monitoring import prometheus
from tests.support.real.monitoring.prometheus import Series
from tests.support.real.stores.registries import placed
from tests.support.suite.prerequisites import require


def _series(metric: str, whose: str, last: float, *, first: float | None = None, **labels: str) -> Series:
    """A gauge, or what counts up to ``last`` within the last hour and a half."""
    # Now, and not when this module was imported: Prometheus shows a series for five minutes after its last sample.
    times = [datetime.now(UTC).timestamp() - 5400 + number * 15 for number in range(361)]
    slope = 0.0 if first is None else (last - first) / (times[-1] - times[0])
    samples = [(at, last - slope * (times[-1] - at)) for at in times]
    return Series(metric, "gauge" if first is None else "counter", {"instance_id": whose, **labels}, samples)


def _past(ada: str, bob: str) -> tuple[Series, ...]:
    return (
        _series("hermes_gateway_memory_bytes", ada, 100e6),
        _series("hermes_gateway_memory_bytes", bob, 300e6),
        _series("hermes_gateway_memory_bytes", "somebody", 900e6),
        _series("hermes_gateway_restarts_total", ada, 9, first=0),
        _series("hermes_gateway_errors_total", bob, 30, first=0),
        _series("hermes_turn_seconds", ada, 1.5),
        _series("hermes_data_bytes", ada, 30e9, state="used"),
        _series("hermes_data_bytes", ada, 40e9, state="size"),
        _series("hermes_agent_up", bob, 0),
    )


def _runs(registry: Registry, user: str) -> str:
    instance = placed(registry, user)
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    return instance.id


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[str]:
    programs = prometheus.programs()
    require(programs, "Prometheus: apt-get install prometheus, or apt-get download")
    assert programs is not None
    ada, bob, _ = (_runs(registry, user) for user in ("ada", "bob", "eve"))
    past = _past(ada, bob)
    with prometheus.running(tmp_path_factory.mktemp("prometheus"), programs, past, prefix="/prometheus") as url:
        yield url


async def _top(registry: Registry, url: str, by: Figure, limit: int = 10, where: str = "") -> Top:
    selector = fleet_selector(registry, where)
    return await FleetTop(registry, lambda: MonitoringClient(url)).read(by, limit=limit, selector=selector)


async def test_the_highest_comes_first_with_its_other_figures(registry: Registry, url: str) -> None:
    top = await _top(registry, url, Figure.MEMORY)
    assert [row.instance.user for row in top.instances] == ["bob", "ada"]
    bob, ada = (row.figures for row in top.instances)
    assert bob == {Figure.MEMORY: 300e6, Figure.ERRORS: pytest.approx(20, abs=0.5)}
    assert ada == {
        Figure.MEMORY: 100e6,
        Figure.RESTARTS: pytest.approx(6, abs=0.2),
        Figure.TURN: 1.5,
        Figure.DISK: 0.75,
    }
    assert (top.without, top.problems) == (("eve",), ())


async def test_another_order_fewer_instances_and_only_some(registry: Registry, url: str) -> None:
    assert [row.instance.user for row in (await _top(registry, url, Figure.DISK)).instances] == ["ada"]
    assert (await _top(registry, url, Figure.DISK)).without == ("bob", "eve")
    assert [row.instance.user for row in (await _top(registry, url, Figure.MEMORY, limit=1)).instances] == ["bob"]
    only = await _top(registry, url, Figure.MEMORY, where="user=ada,user=eve")
    assert ([row.instance.user for row in only.instances], only.without) == (["ada"], ("eve",))


async def test_every_expression_is_taken_and_one_that_is_wrong_is_not(registry: Registry, url: str) -> None:
    metrics, now = Metrics(MonitoringClient(url)), datetime.now(UTC)
    ada = registry.instances.find("ada").id
    for figure in Figure:
        await metrics.instant(figures.now(figure))
        series = await metrics.range(figures.trend(figure, ada), begin=now - timedelta(hours=1), end=now, step_s=60)
        assert all(set(labelled.labels) == {"instance_id"} for labelled in series)
    (memory,) = await metrics.range(
        figures.trend(Figure.MEMORY, ada), begin=now - timedelta(minutes=30), end=now, step_s=60
    )
    assert {value for _, value in memory.points} == {100e6}
    assert len(memory.points) == 31
    with pytest.raises(WrongQuestionError, match="parse error"):
        await metrics.instant("sum by (")


async def test_nothing_is_asked_about_instances_that_are_not_there(registry: Registry, url: str) -> None:
    nobody = Selector({"plan": frozenset({"heavy"})})
    top = await FleetTop(registry, lambda: MonitoringClient(url)).read(Figure.MEMORY, limit=3, selector=nobody)
    assert (top.instances, top.without, top.problems) == ((), (), ())
