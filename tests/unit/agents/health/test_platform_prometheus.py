"""Gates ask the platform's Prometheus where nobody has chosen another one."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.health.prometheus import PlatformPrometheus, Prometheus
from hermesops.agents.rollout.service import Rollouts
from hermesops.errors import UnavailableError
from hermesops.model.fleet.vitals import Source, Vital
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import MonitoringClient
from tests.support.fakes.monitoring import Answer, Asked, fake_monitoring, vector

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
ADA, BOB = InstanceId("i-ada"), InstanceId("i-bob")
QUERY = "POST /prometheus/api/v1/query"


def answer(request: Asked) -> Answer:
    if "memory" in dict(request.form)["query"]:
        return vector(({"instance_id": ADA}, 100), ({"instance_id": BOB}, "NaN"), ({"instance_id": "another"}, 7))
    return vector()


async def test_figures_of_the_platform_with_their_source_and_what_is_missing() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = answer
        vitals = await PlatformPrometheus(monitoring.client).vitals(
            [ADA, BOB], since=NOW - timedelta(hours=1), until=NOW
        )
        form = dict(monitoring.asked[0].form)
        assert (form["time"], "[3600s]" in form["query"]) == (f"{NOW.timestamp():.3f}", True)
    assert vitals[ADA].figures == {Vital.MEMORY: 100}
    assert vitals[ADA].source is Source.PROMETHEUS
    assert vitals[BOB].figures == {}
    assert set(vitals) == {ADA, BOB}


async def test_that_it_does_not_answer_is_an_error_and_what_it_lacks_is_none() -> None:
    async with fake_monitoring() as monitoring:
        server = PlatformPrometheus(monitoring.client)
        await server.require_vital(Vital.MEMORY)
        assert monitoring.asked == []
        with pytest.raises(UnavailableError, match="status 404"):
            await server.vitals([ADA], since=NOW - timedelta(hours=1), until=NOW)


@pytest.mark.parametrize(
    ("chosen", "has_monitoring", "kind"),
    [
        ("http://127.0.0.1:9", True, Prometheus),
        ("http://127.0.0.1:9", False, Prometheus),
        ("", True, PlatformPrometheus),
        ("", False, type(None)),
    ],
)
def test_the_one_that_was_chosen_for_gates_wins(chosen: str, kind: type[object], *, has_monitoring: bool) -> None:
    unused: Any = None
    env: Any = SimpleNamespace(settings=SimpleNamespace(prometheus_url=chosen))
    client = MonitoringClient("http://127.0.0.1:8") if has_monitoring else None
    rollouts = Rollouts(env, unused, unused, unused, unused, unused, unused, client)
    assert type(rollouts._prometheus()) is kind
