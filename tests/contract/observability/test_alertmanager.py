"""Alerts of a real Alertmanager, seen and silenced as an operator does, with the audit in both databases."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.fleet.alert import Severity
from hermesops.observability.telemetry.alerts.alertmanager import Alertmanager
from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, Steps
from hermesops.observability.telemetry.alerts.silencing import matchers_of, silence_of
from hermesops.observability.telemetry.client import MonitoringClient, WrongQuestionError
from hermesops.store.registry import Registry
from tests.support.fakes.monitoring import Answer, fake_monitoring
from tests.support.real.monitoring import alertmanager
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.suite.prerequisites import require

HOUR = timedelta(hours=1)
RULES = {"data": {"groups": [{"rules": [{"name": "GatewayDown"}, {"name": "CellLost"}]}]}}


@pytest.fixture
def clock() -> TurnedClock:
    """The time of Alertmanager, which refuses silences of the past."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC)
    return turned


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    programs = alertmanager.programs()
    require(programs, "Alertmanager: apt-get install prometheus-alertmanager, or apt-get download")
    assert programs is not None
    with alertmanager.running(tmp_path_factory.mktemp("alertmanager"), programs) as url:
        yield url


def fire(url: str, name: str, **labels: str) -> None:
    annotations = {"summary": "it is down", "figure": "0 of 1", "runbook_url": "https://x/machine-gone.md"}
    alert = {"labels": {"alertname": name, **labels}, "annotations": annotations}
    httpx.post(f"{url}/alertmanager/api/v2/alerts", json=[alert], trust_env=False).raise_for_status()


def alerts_of(registry: Registry, url: str) -> Alerts:
    return Alerts(
        registry, MonitoringClient(url), lambda name: Steps.OF_INSTANCE if name == "machine-gone" else Steps.NONE
    )


async def test_an_operator_sees_acknowledges_and_silences_alerts(registry: Registry, url: str) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    alerts = alerts_of(registry, url)
    assert await alerts.list() == ()
    fire(url, "GatewayDown", severity="page", instance_id=ada.id, cell=ada.cell)
    fire(url, "GatewayDown", severity="page", instance_id=bob.id, cell="other")
    fire(url, "BackupOverdue", severity="ticket", instance_id=ada.id)
    fire(url, "Watchdog", severity="none")
    open_alerts = await alerts.list()
    assert [(open_alert.alert.name, open_alert.user) for open_alert in open_alerts] == [
        ("GatewayDown", "ada"),
        ("GatewayDown", "bob"),
        ("BackupOverdue", "ada"),
    ]
    assert open_alerts[0].next == Hint(("runbook", "run", "machine-gone", "--instance", "ada"))
    assert [open_alert.alert.name for open_alert in await alerts.list(instance=bob)] == ["GatewayDown"]
    assert [open_alert.alert.name for open_alert in await alerts.list(severities=[Severity.NONE])] == ["Watchdog"]

    silence = await alerts.acknowledge("GatewayDown", bob, length=HOUR, reason="i am at it")
    assert [(open_alert.alert.name, open_alert.user) for open_alert in await alerts.list()] == [
        ("GatewayDown", "ada"),
        ("GatewayDown", "bob"),
        ("BackupOverdue", "ada"),
    ]
    assert [open_alert.acknowledged and open_alert.acknowledged.id for open_alert in await alerts.list()] == [
        None,
        silence.id,
        None,
    ]
    (kept,) = await alerts.silences()
    assert (kept.id, kept.who, kept.comment) == (silence.id, registry.actor, "acknowledged: i am at it")
    assert kept.is_acknowledgement
    noted = registry.audit.list(subject=f"instance/{bob.id}", limit=1)[0]
    assert (noted.action, noted.why, noted.after["silence"]) == ("alert_acknowledged", "i am at it", silence.id)

    everything = await alerts.list(everything=True)
    assert [open_alert.alert.name for open_alert in everything if open_alert.alert.silenced_by] == ["GatewayDown"]
    await alerts.lift(silence.id[:6], reason="done")
    assert registry.audit.list(limit=1)[0].action == "silence_lifted"
    assert await alerts.silences() == ()
    assert len(await alerts.list()) == 3


async def test_an_inhibited_alert_is_listed_with_all_and_where_somebody_asks_for_its_instance(
    registry: Registry, url: str
) -> None:
    ada = placed(registry, "ada")
    alerts = alerts_of(registry, url)
    fire(url, "CellLost", severity="page", cell=ada.cell)
    fire(url, "GatewayDown", severity="page", instance_id=ada.id, cell=ada.cell)
    assert [open_alert.alert.name for open_alert in await alerts.list()] == ["CellLost"]
    alerts_by_name = {open_alert.alert.name: open_alert.alert for open_alert in await alerts.list(everything=True)}
    assert alerts_by_name["GatewayDown"].inhibited_by
    assert [open_alert.alert.name for open_alert in await alerts.list(instance=ada)] == ["GatewayDown"]


async def test_an_alert_about_many_names_those_that_it_stands_for(registry: Registry, url: str) -> None:
    alerts = alerts_of(registry, url)
    fire(url, "GatewayDown", severity="page", scope="fleet")
    [alone] = await alerts.list()
    assert (alone.stands_for, alone.next) == ((), Hint(("runbook", "run", "machine-gone", "--instance", "USER")))
    for user in ("bob", "ada"):
        instance = placed(registry, user)
        fire(url, "GatewayDown", severity="page", scope="instance", instance_id=instance.id, cell=instance.cell)
    [open_alert] = await alerts.list()
    assert (open_alert.user, open_alert.stands_for) == ("", ("ada", "bob"))
    assert open_alert.next == Hint(("runbook", "run", "machine-gone", "--instance", "ada"))


async def test_a_silence_by_labels_of_names_that_exist(registry: Registry, url: str) -> None:
    ada = placed(registry, "ada")
    fire(url, "GatewayDown", severity="page", instance_id=ada.id, cell=ada.cell)
    async with fake_monitoring() as rules:
        rules.answers["GET /prometheus/api/v1/rules"] = Answer(RULES)
        before = alerts_of(registry, f"http://127.0.0.1:{rules.port}")
        for where, words in (
            ("alert=GatewayDwn", "no alert 'GatewayDwn'; nearest: GatewayDown"),
            ("cell=nowhere,alert=GatewayDown", "no cell 'nowhere'"),
            ("user=eve", "no user 'eve'"),
            ("user=ada,colour=red", "no field 'colour'"),
        ):
            with pytest.raises(UsageError, match=words):
                await before.silence(where, None, length=HOUR, reason="why")
        with pytest.raises(RefusedError, match="a silence without conditions"):
            await before.silence("", None, length=HOUR, reason="why")
        assert {request.path for request in rules.asked} == {"/prometheus/api/v1/rules"}
    alerts = alerts_of(registry, url)
    silence = await alerts.silence(f"cell={ada.cell},severity=page", ada, length=HOUR, reason="maintenance")
    assert await alerts.list() == ()
    assert [str(matcher) for matcher in silence.matchers] == [
        f"cell={ada.cell}",
        "severity=page",
        f"instance_id={ada.id}",
    ]
    assert registry.audit.list(limit=1)[0].action == "alert_silenced"
    with pytest.raises(UsageError, match="name different users"):
        await alerts.silence("user=ada", placed(registry, "bob"), length=HOUR, reason="why")


async def test_several_values_are_a_regular_expression_that_takes_these_alone(registry: Registry, url: str) -> None:
    for cell in ("a.b", "a-b", "axb", "a.b.c"):
        fire(url, "CellLost", severity="page", cell=cell)
    wanted = silence_of(
        matchers_of({"cell": ("a.b", "a-b")}),
        now=registry.now(),
        length=HOUR,
        who="ada",
        reason="why",
        is_acknowledgement=False,
    )
    manager = Alertmanager(MonitoringClient(url))
    await manager.silence(wanted)
    assert {alert.cell for alert in await manager.alerts()} == {"a.b.c", "axb"}
    with pytest.raises(WrongQuestionError, match="status 4"):
        await manager.silence(replace(wanted, matchers=()))


async def test_an_acknowledgement_is_found_by_its_reason_and_noted_where_the_process_died_before(
    registry: Registry, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, alerts = placed(registry, "ada"), alerts_of(registry, url)
    fire(url, "GatewayDown", severity="page", instance_id=ada.id, cell=ada.cell)
    fire(url, "CellLost", severity="page", cell=ada.cell)
    assert await alerts.find_made("first (console request 1)") is None
    for number, name in enumerate(("GatewayDown", "CellLost")):
        reason = f"it is so (console request {number})"
        with monkeypatch.context() as patched:
            patched.setattr(Alerts, "_note_made", _die)
            with pytest.raises(_DeadError):
                await alerts.acknowledge(name, None, length=HOUR, reason=reason)
        for _ in range(2):
            silence = await alerts.find_made(reason)
            assert silence is not None
            noted = [entry for entry in registry.audit.list() if entry.why == reason]
            assert [entry.after["silence"] for entry in noted] == [silence.id]
    assert [entry.subject for entry in noted] == ["alert/CellLost"]
    assert len(await alerts.silences()) == 2
    assert await alerts.find_made("it is so") is None


class _DeadError(BaseException):
    """The process died here."""


def _die(*_: object) -> None:
    raise _DeadError
