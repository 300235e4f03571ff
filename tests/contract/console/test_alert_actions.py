"""Alerts are acknowledged and silenced, and silences lifted, by pages as by commands; Alertmanager is a stand-in."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.app import Container
from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, Steps
from tests.support.fakes.monitoring import Answer, FakeMonitoring, alert, fake_monitoring, silence
from tests.support.fleets.filled_registry import fill
from tests.support.pages.comparison import Compared, Comparison
from tests.support.pages.console import console_client, empty_container
from tests.support.real.commands.here import commands_over

_API = "/alertmanager/api/v2"


pytestmark = pytest.mark.xdist_group("alert actions")
"""Its last test looks at what the others compared."""


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared()


@pytest.fixture
async def monitoring() -> AsyncIterator[FakeMonitoring]:
    """Two alerts, of which a silence takes one."""
    async with fake_monitoring() as monitoring:
        rules = {"groups": [{"rules": [{"name": "GatewayDown"}, {"name": "CellLost"}]}]}
        monitoring.answers["GET /prometheus/api/v1/rules"] = Answer({"status": "success", "data": rules})
        monitoring.answers[f"GET {_API}/silences"] = Answer([silence("ab12")])
        monitoring.answers[f"POST {_API}/silences"] = Answer({"silenceID": "cd34"})
        monitoring.answers[f"DELETE {_API}/silence"] = Answer({})
        yield monitoring


@pytest.fixture
def container(tmp_path: Path, monitoring: FakeMonitoring) -> Container:
    container = empty_container(tmp_path)
    fill(container.registry, 3)
    first = container.registry.instances.list()[0]
    monitoring.answers[f"GET {_API}/alerts"] = Answer(
        [alert("GatewayDown", instance_id=first.id, silenced=("ab12",)), alert("CellLost", cell="cell1")]
    )
    container.__dict__["monitoring"] = SimpleNamespace(is_known=True, client=lambda: None)
    container.__dict__["alerts"] = lambda: Alerts(container.registry, monitoring.client, lambda _: Steps.NONE)
    return container


@pytest.fixture
async def pages(container: Container, compared: Compared, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Comparison]:
    run = commands_over(container, monkeypatch)
    async with console_client(container) as client:
        yield Comparison(container, client, run, compared)


def requested(monitoring: FakeMonitoring, method: str) -> list[Any]:
    """What Alertmanager was asked to change: path and body, without times."""
    questions = [question for question in monitoring.asked if question.method == method and "silence" in question.path]
    bodies = [json.loads(question.body) if question.body else {} for question in questions]
    lasting = [{key: value for key, value in body.items() if key not in {"startsAt", "endsAt"}} for body in bodies]
    return [(question.path, body) for question, body in zip(questions, lasting, strict=True)]


@pytest.mark.parametrize(
    ("path", "values", "method", "noted"),
    [
        ("/console/alerts/CellLost/change/acknowledge", {"length": "1h"}, "POST", "alert_acknowledged"),
        ("/console/change/silence", {"where": "alert=CellLost,cell=cell1"}, "POST", "alert_silenced"),
        ("/console/silences/ab12/change/lift", {}, "DELETE", "silence_lifted"),
    ],
)
async def test_a_page_asks_alertmanager_for_what_its_command_asks(
    pages: Comparison, monitoring: FakeMonitoring, path: str, values: dict[str, str], method: str, noted: str
) -> None:
    assert not await pages.preview(path, values)
    assert requested(monitoring, method) == []
    assert await pages.begin(path, values=values) == "/console/alerts"
    assert (await pages.command(path, values)).exit_code == 0
    by_page, by_command = requested(monitoring, method)
    assert by_page == by_command
    entries = [
        (kind, why, before, {key: value for key, value in after.items() if key != "until"})
        for kind, why, before, after in pages.noted(noted, 2)
    ]
    assert entries[0] == entries[1]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/console/alerts/GatewayDown/change/acknowledge", {"length": "2d"}),
        ("/console/alerts/None/change/acknowledge", {}),
        ("/console/change/silence", {"where": "severity=page"}),
        ("/console/change/silence", {"where": "alert=None"}),
        ("/console/change/silence", {"where": "alert=CellLost", "length": "8d"}),
        ("/console/silences/none/change/lift", {}),
    ],
)
async def test_a_page_refuses_what_its_command_refuses(pages: Comparison, path: str, values: dict[str, str]) -> None:
    assert await pages.preview(path, values)


async def test_silences_are_listed_with_their_ends_and_authors(pages: Comparison) -> None:
    page = (await pages.client.get("/console/alerts")).text
    for text in ("alertname=GatewayDown", "ada@here", "it is known", "2026-01-02T05:04:05", 'id="lift-ab12"'):
        assert text in page, text
    lift = (await pages.client.get("/console/silences/ab12/change/lift")).text
    assert ("Somebody is told of these again" in lift, "GatewayDown user0" in lift) == (True, True)


async def test_silences_that_cannot_be_read_are_unknown(pages: Comparison, monitoring: FakeMonitoring) -> None:
    monitoring.answers[f"GET {_API}/silences"] = Answer(b"no", 503)
    assert "Silences are unknown" in (await pages.client.get("/console/alerts")).text


def test_each_row_of_these_pages_was_compared_with_its_command(
    compared: Compared, request: pytest.FixtureRequest
) -> None:
    compared.refuse_gaps(request)
