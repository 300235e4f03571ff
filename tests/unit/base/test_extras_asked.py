"""Each way to packages of an extra asks for it before it does anything; all of them seem to be missing here."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from hermesops.agents.drift.service import Drift
from hermesops.app.adapters import SimulatedAdapters, WorldAdapters
from hermesops.base.extras import Extra
from hermesops.errors import UsageError
from hermesops.localcloud.world.go_tools import GoTools
from hermesops.localcloud.world.local_world import World
from hermesops.machines.converge import Access, Converger
from hermesops.machines.image.packages.download import Pip
from hermesops.model.billing.events import Delivery
from hermesops.model.fleet.selector import Selector
from hermesops.platform.aws import bundle as aws_platform
from hermesops.platform.aws import program as aws_program
from hermesops.platform.local import world as local_world
from hermesops.settings.environment import Environment
from hermesops.users.billing.current import StripeSubscriptions
from hermesops.users.billing.events import Rules, read_event
from hermesops.users.billing.stripe_api import StripeApi
from tests.support.fakes.parts import part

Way = Callable[[], object]


@pytest.fixture(autouse=True)
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: [f"not-{extra}; extra == '{extra}'" for extra in Extra])


def asks(extra: Extra, way: Callable[[], object]) -> bool:
    async def run() -> None:
        done = way()
        if isinstance(done, Awaitable):
            await done

    with pytest.raises(UsageError) as caught:
        asyncio.run(run())
    return f"needs extra {extra} of hermesops" in caught.value.message


def test_each_way_asks_for_its_extra(tmp_path: Path) -> None:
    variables = {"HERMESOPS_HOME": str(tmp_path), "PATH": os.defpath}
    local = Environment.load("local", variables)
    (tmp_path / "staging").mkdir()
    staging = Environment.load("staging", variables)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"one==1 --hash=sha256:{'0' * 64}\n")
    go = tmp_path / "module"
    go.mkdir()
    for name, text in {"go.mod": "go 1.99\n", "go.sum": "", "go.txt": lock.read_text()}.items():
        (go / name).write_text(text)
    world = World(tmp_path / "world", base_definition=tmp_path, driver="sim")
    now = datetime.now(UTC)
    rules = Rules(("s",), 300.0, livemode=False, account="", product="", user_key="user")
    subscriptions = StripeSubscriptions(StripeApi("k"), user_key="user")
    ways: list[tuple[Extra, Way]] = [
        (Extra.AWS, lambda: aws_program.aws_program(staging, "s3://state")),
        (Extra.AWS, lambda: aws_platform.require_pulumi(staging, "up")),
        (Extra.BILLING, lambda: read_event(Delivery(b"{}", "t=1", now), rules, now=now)),
        (Extra.BILLING, lambda: subscriptions.get("sub_1")),
        (Extra.BUILD, lambda: WorldAdapters().image_builder),
        (Extra.BUILD, lambda: WorldAdapters().release_builder),
        (Extra.BUILD, lambda: Pip({}, tmp_path).wheels(lock, tmp_path / "wheels", python="3.11")),
        (Extra.BUILD, lambda: GoTools(go, tmp_path, {"PATH": ""}, lambda _: None).build("example.org/one")),
        (Extra.LOCAL, lambda: world.up([], environment={}, report=lambda _: None)),
        (Extra.LOCAL, lambda: local_world.serve_world(local, "sim", report=lambda _: None, platform=())),
        (Extra.ROLES, lambda: Drift(*[part()] * 10).findings(Selector(), deep=True)),
        (Extra.ROLES, lambda: Converger(tmp_path, Access("http://x", lock)).run("instance", [])),
    ]
    assert [(extra, number) for number, (extra, way) in enumerate(ways) if not asks(extra, way)] == []


def test_simulated_machines_need_none_to_make_images_and_releases(tmp_path: Path) -> None:
    adapters = SimulatedAdapters(tmp_path)
    assert {adapters.image_builder.__name__, adapters.release_builder.__name__} == {"SimulatedBuilder"}
