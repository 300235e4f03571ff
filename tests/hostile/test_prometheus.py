"""Whatever answers in Prometheus's place: a question ends in its time and size, and goes nowhere else."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.health import prometheus
from hermesops.agents.health.prometheus import Prometheus
from hermesops.base import blocking
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.http_service import hostile_service
from tests.support.suite.cases import each_case

LIMIT_S = 1
ENDS_S = 30.0
UNTIL = datetime(2026, 1, 2, tzinfo=UTC)


@each_case("mood", MOODS)
async def test_a_question_ends_within_its_time_and_size(mood: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_LARGEST", 1 << 20)
    monkeypatch.setattr(blocking, "_MOST_ABANDONED", 10_000)
    async with hostile_service(mood) as service, asyncio.timeout(ENDS_S):
        server = Prometheus(service.url, timeout_s=LIMIT_S)
        with pytest.raises(HermesError, match="Prometheus") as caught:
            await server.vitals([InstanceId("i-1")], since=UNTIL - timedelta(minutes=5), until=UNTIL)
    assert len(caught.value.message) < 700
    assert service.taken < 32 << 20
