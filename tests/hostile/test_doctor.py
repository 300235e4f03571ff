"""``hermesops doctor`` beside a vendor and a registry that are hostile: it ends, and says what it could see."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.automation.doctor import environment
from hermesops.model.check import Check, Verdict
from hermesops.settings.environment import Environment
from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.http_service import HostileProcess, hostile_process
from tests.support.suite.cases import each_case

LIMIT_S = 2.0
MOST = 96 << 20


def _app(home: Path, **variables: str) -> Container:
    given = {"HOME": "/h", "HERMESOPS_HOME": str(home), "HERMESOPS_API_KEY": "sk_x"}
    env = Environment.load("staging", given | {f"HERMESOPS_{name}": value for name, value in variables.items()})
    return Container(env, lambda _: None)


async def _checks(app: Container) -> dict[str, Check]:
    begun = time.monotonic()
    checks = await app.checks.doctor()
    assert time.monotonic() - begun < LIMIT_S + 8
    return {check.name: check for check in checks}


@pytest.fixture(scope="module")
def vendors() -> Iterator[HostileProcess]:
    with hostile_process() as process:
        yield process


@each_case("mood", MOODS)
async def test_a_vendor_breaks_its_own_check_alone(
    mood: str, vendors: HostileProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "WITHIN_S", LIMIT_S)
    app = _app(tmp_path, API_URL=f"{vendors.url(mood)}/api/v1")
    assert app.registry  # made before the time counts
    checks = await _checks(app)
    assert checks["registry"].verdict is Verdict.OK
    assert len(checks["vendor"].seen) < 700
    assert vendors.end(mood) < MOST


async def test_a_registry_that_never_answers_breaks_its_own_check_alone(
    vendors: HostileProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "WITHIN_S", LIMIT_S)

    async def say_nothing(*_: object) -> None:
        await asyncio.Event().wait()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        registry = f"postgresql://u:p@127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        checks = await _checks(_app(tmp_path, API_URL=f"{vendors.url('drips_body')}/api/v1", REGISTRY_URL=registry))
    vendors.end("drips_body")
    for name in ("registry", "vendor"):
        assert checks[name].verdict is Verdict.UNKNOWN
        assert checks[name].seen == f"{name} gives no answer within {LIMIT_S:g} s"
    assert checks["python"].verdict is Verdict.OK
