"""What operators ask, over nginx of the platform with hermesops' own certificate: alerts, silences, figures, logs."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from hermesops.access.pki.client import client_context
from hermesops.agents.health.prometheus import PlatformPrometheus
from hermesops.agents.rollout.watch.alerts import RolloutAlerts
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.certificate import CallerName
from hermesops.model.fleet.alert import Matcher, Silence
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from hermesops.observability.telemetry.client import MonitoringClient, WrongQuestionError
from hermesops.observability.telemetry.logs.loki import Loki
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.observability.telemetry.metrics.trends import trends_of
from tests.support.real.monitoring import platform_host
from tests.support.real.monitoring.loki import loki
from tests.support.real.monitoring.platform_host import ENVIRONMENT, Client, PlatformHost
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(20)

HOUR = timedelta(hours=1)
UNIT = "hermes-gateway.service"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformHost]:
    root = platform_host.programs()
    require(root, "nginx, Prometheus and Alertmanager: apt-get download")
    assert root is not None
    with platform_host.running(tmp_path_factory.mktemp("platform"), root, loki=loki()) as running:
        yield running


def client_of(host: PlatformHost, name: str = "hermesops") -> MonitoringClient:
    roots = host.authority.certificate
    caller = CallerName(ENVIRONMENT, name)
    return MonitoringClient(host.url, lambda: client_context(host.authority, caller, roots=roots, life=HOUR))


def fire(host: PlatformHost, name: str, **labels: str) -> None:
    alert = {"labels": {"alertname": name, **labels}, "annotations": {"summary": "as a test wants it"}}
    url = f"http://127.0.0.1:{host.ports['alertmanager']}/api/v2/alerts"
    httpx.post(url, json=[alert], trust_env=False).raise_for_status()


async def test_an_alert_holds_rollouts_until_it_is_silenced_and_again_when_that_is_lifted(host: PlatformHost) -> None:
    fire(host, "FleetGap", severity="page", scope="fleet")
    client = client_of(host)
    manager = Alertmanager(client)

    async def holding() -> list[str]:
        return [alert.name for alert in (await RolloutAlerts(client, lambda: datetime.now(UTC)).check()).open]

    assert "FleetGap" in await holding()
    now = datetime.now(UTC)
    silence = Silence("", "active", (Matcher("alertname", "FleetGap"),), now, now + HOUR, "ada", "acknowledged: at it")
    own = await manager.silence(silence)
    assert "FleetGap" in await holding()
    assert "FleetGap" not in [alert.name for alert in await manager.alerts()]
    await manager.lift(own.id)
    known = await manager.silence(Silence("", "", silence.matchers, now, now + HOUR, "ada", "it is known"))
    assert "FleetGap" not in await holding()
    await manager.lift(known.id)
    assert "FleetGap" in await holding()


async def test_the_rules_that_are_there_have_names(host: PlatformHost) -> None:
    assert "Watchdog" in await Metrics(client_of(host)).alert_names()


async def test_figures_of_now_and_of_the_last_hour(host: PlatformHost) -> None:
    metrics = Metrics(client_of(host))
    await metrics.instant("vector(7)")
    (sample,) = await metrics.instant("vector(7)", at=datetime.now(UTC))
    assert (sample.labels, sample.value) == ({}, 7)
    many = "|".join(f"i-{number:036}" for number in range(1000))
    assert await metrics.instant(f'up{{instance_id=~"{many}"}}') == (), "more than an address holds"
    with pytest.raises(WrongQuestionError, match="parse error"):
        await metrics.instant("sum(")
    now = datetime.now(UTC)
    assert (await trends_of(client_of(host), InstanceId("i-nobody"), now)).problem == "Prometheus has nothing of it"
    vitals = await PlatformPrometheus(client_of(host)).vitals([InstanceId("i-1")], since=now - HOUR, until=now)
    assert vitals[InstanceId("i-1")].figures == {}


def _push(host: PlatformHost, machine: Client, unit: str, *lines: tuple[float, str]) -> None:
    values = [[f"{round(at * 1000)}000000", text] for at, text in lines]
    body = {"streams": [{"stream": {"unit": unit, "priority": "info"}, "values": values}]}
    with machine.http(host.url) as client:
        assert client.post("/ingest/logs", json=body).status_code == 204


async def test_lines_of_one_machine_and_of_no_other(host: PlatformHost) -> None:
    ada, bob = host.machine(), host.machine()
    assert ada.names
    assert ada.names.instance_id
    now = datetime.now(UTC)
    begin = now - HOUR
    times = [(now - timedelta(seconds=ago)).timestamp() for ago in (90, 60, 30)]
    for machine, word in ((ada, "ada"), (bob, "bob")):
        lines = [(at, f"ERROR {word}.{number} \x1b[2J") for number, at in enumerate(times)]
        await asyncio.to_thread(_push, host, machine, UNIT, *lines)
    await asyncio.to_thread(_push, host, ada, "kernel", (times[1], "out of memory"))
    reads = Loki(client_of(host))

    async def texts(**wanted: object) -> list[str]:
        log_lines = await reads.lines(ada.names.instance_id, begin=begin, end=now + HOUR, **wanted)  # type: ignore[union-attr,arg-type]  # asserted above
        return [log_line.text for log_line in log_lines.lines]

    assert await texts(unit=UNIT) == [f"ERROR ada.{number} \x1b[2J" for number in (0, 1, 2)]
    assert await texts(unit=UNIT, most=2) == [f"ERROR ada.{number} \x1b[2J" for number in (1, 2)]
    assert len(await texts()) == 4
    assert await texts(grep=r"ada\.[12] ") == [f"ERROR ada.{number} \x1b[2J" for number in (1, 2)]
    assert await texts(grep="memory|MEMORY") == ["out of memory"]
    assert await texts(grep='"} or x') == []
    with pytest.raises(WrongQuestionError, match="regexp"):
        await texts(grep="(")


async def test_another_service_is_not_answered(host: PlatformHost) -> None:
    client = client_of(host, "billing")
    with pytest.raises(RefusedError, match="status 403"):
        await Alertmanager(client).alerts()
    with pytest.raises(UnavailableError, match="no answer"):
        await Metrics(MonitoringClient(host.url)).instant("up")
