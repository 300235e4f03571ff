"""An image build whose vendor, machine or package index is hostile: it ends, and its machines go."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from hermesops.app import Container
from hermesops.base.waiting import pause
from hermesops.errors import HaltedError, HermesError, UnavailableError, UnknownOutcomeError
from hermesops.machines.image import build, machine_facts, machines
from hermesops.machines.image.machines import borrowed, names_of, sweep
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel, Completed
from hermesops.vendor.justavps import Machine, MachineOrder, MachineStatus
from hermesops.vendor.justavps.errors import LostChangeError
from tests.support.images.build_world import World, builder_of, image_folder, recipe_of
from tests.support.suite.cases import each_case

ORDER = MachineOrder(name="hermes-local-build-0123456789ab", server_type="starter", region="hel1")
LIMIT_S = 0.5


def silence(_: str) -> None:
    """Tell nobody."""


async def never() -> None:
    await asyncio.Event().wait()


class UnansweredWorld(World):
    """A vendor that rents a machine, and never says so."""

    async def create_machine(self, order: MachineOrder) -> Machine:
        await super().create_machine(order)
        await never()
        raise AssertionError


class LostWorld(World):
    """A vendor that rents a machine, and whose answer is lost."""

    async def create_machine(self, order: MachineOrder) -> Machine:
        await super().create_machine(order)
        raise LostChangeError("POST /machines", "no answer")


class ImmortalWorld(World):
    """A vendor that says of each machine that it is gone, and lists it."""

    async def delete_machine(self, machine_id: str) -> None:
        self.done.append(machine_id)


@dataclass
class Shell:
    """A machine that answers every command alike; its shell works."""

    answer: Callable[[], Awaitable[Completed]]
    machine_id: str = "m"

    async def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60) -> Completed:
        del stdin, timeout_s
        return Completed(0, b"", b"") if command == "true" else await self.answer()


@pytest.mark.parametrize("world", [UnansweredWorld(), LostWorld()])
async def test_a_machine_whose_order_was_not_answered_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_ORDERED_S", LIMIT_S)
    monkeypatch.setattr("hermesops.base.waiting._LAST_CHECK_S", LIMIT_S)
    async with asyncio.timeout(10):
        with pytest.raises((UnavailableError, UnknownOutcomeError), match=r"the order of|no answer"):
            async with borrowed(world, world.channel_to, ORDER, report=silence):
                pytest.fail("it must not be used")
    assert world.done == [f"order {ORDER.name}", "delete machine"]


async def test_a_machine_goes_when_its_order_is_cancelled() -> None:
    world = UnansweredWorld()

    async def use() -> None:
        async with borrowed(world, world.channel_to, ORDER, report=silence):
            pytest.fail("it must not be used")

    using = asyncio.create_task(use())
    while not world.machines:
        await pause(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert world.machines == {}


async def test_what_never_ends_on_a_machine_is_cancelled_and_the_machine_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LENT_S", LIMIT_S)
    world = World()
    async with asyncio.timeout(10):
        with pytest.raises(UnavailableError, match=f"{ORDER.name} was given up after 0.5 s"):
            async with borrowed(world, world.channel_to, ORDER, report=silence):
                await never()
    assert world.machines == {}


async def test_a_build_that_is_cancelled_leaves_no_machine(tmp_path: Path) -> None:
    world, begun = World(), asyncio.Event()

    async def converge(*_: object, **__: object) -> None:
        begun.set()
        await never()

    world.converge = converge  # type: ignore[method-assign]
    recipe = recipe_of(image_folder(tmp_path / "image"))
    building = asyncio.create_task(builder_of(world, tmp_path, silence).build(recipe))
    await asyncio.wait_for(begun.wait(), 10)
    assert world.machines
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert world.machines == {}


async def test_machines_that_never_go_are_waited_for_once_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machines, "_GONE_S", LIMIT_S)
    world = ImmortalWorld()
    for number in range(40):
        name = names_of("local", "test-image", f"{number:064x}").builder
        world.machines[str(number)] = Machine(id=str(number), name=name, status=MachineStatus.READY)
    begun = time.monotonic()
    with pytest.raises(UnavailableError, match="and 39 more to be gone"):
        await sweep(world, "local", (), silence)
    assert time.monotonic() - begun < 10
    assert set(world.done) == set(world.machines)


async def test_a_script_that_is_never_answered_ends_and_so_does_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SCRIPT_S", "_ANSWERED_S"):
        monkeypatch.setattr(build, name, LIMIT_S)
    monkeypatch.setattr("hermesops.base.waiting._LAST_CHECK_S", LIMIT_S)

    class StuckWorld(World):
        def channel_to(self, machine_id: MachineId) -> Channel:
            async def run() -> Completed:
                if "converge test.yml" in self.done:
                    await never()
                return self.observe(machine_id)

            return cast("Channel", Shell(run))

    world = StuckWorld()
    async with asyncio.timeout(20):
        with pytest.raises(UnavailableError, match="the script prepare to end"):
            await builder_of(world, tmp_path, silence).build(recipe_of(image_folder(tmp_path / "image")))
    assert world.machines == {}


async def test_an_index_that_never_answers_ends_and_leaves_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, world = threading.Event(), World()
    monkeypatch.setattr("hermesops.machines.release.service._BUILT_S", LIMIT_S)
    monkeypatch.setattr("hermesops.machines.release.builder.build.Builder.build", lambda *_, **__: over.wait(20))
    home = {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path / "home")}
    container = Container(Environment.load("local", home), silence)
    builder = replace(builder_of(world, tmp_path, silence), release=container.release_changes.build_for)
    begun = time.monotonic()
    with pytest.raises(UnavailableError, match="the package index gives no answer"):
        await builder.build(recipe_of(image_folder(tmp_path / "image")))
    over.set()
    assert time.monotonic() - begun < 10
    assert (world.machines, world.images) == ({}, {})


async def test_a_look_that_is_never_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_facts, "_ASKED_S", LIMIT_S)
    monkeypatch.setattr("hermesops.base.waiting._LAST_CHECK_S", LIMIT_S)

    async def hang() -> Completed:
        await never()
        raise AssertionError

    async with asyncio.timeout(10):
        with pytest.raises(UnavailableError, match="facts of machine m"):
            await machine_facts.survey(cast("Channel", Shell(hang)))


SOUND: dict[str, object] = {
    "distribution": "debian",
    "version": "12",
    "architecture": "x86_64",
    "python": "3.11",
    "machine_id": "m",
    "debian": {"nftables": "1:1.0.6-2+deb12u2~x"},
    "agent": {"hermes_agent": "0.19.0"},
    "release": "0.19.0-0123456789ab",
}


@each_case(
    "wrong",
    [
        {"python": ["3.11"]},
        {"python": "3.11; rm"},
        {"version": "x" * 1000},
        {"debian": "nftables"},
        {"debian": {"nftables": {}}},
        {"debian": {"\x1b[2J": "1"}},
        {"agent": {str(number): "1" for number in range(20_000)}},
        {"agent": None},
        {"release": "0.19.0; rm"},
    ],
)
async def test_a_look_believes_words_alone(wrong: dict[str, object]) -> None:
    async def answer(answers: dict[str, object]) -> Completed:
        return Completed(0, json.dumps(answers).encode(), b"")

    assert (await machine_facts.survey(cast("Channel", Shell(lambda: answer(SOUND))))).debian == SOUND["debian"]
    with pytest.raises(UnavailableError, match="sent a malformed answer"):
        await machine_facts.survey(cast("Channel", Shell(lambda: answer(SOUND | wrong))))


async def test_broken_promises_without_end_make_a_short_error(tmp_path: Path) -> None:
    world = World(broken=tuple(f"broken {number} \x1b[2J{'x' * 2000}" for number in range(5000)))
    with pytest.raises(HaltedError, match="and 4980 more") as caught:
        await builder_of(world, tmp_path, silence).build(recipe_of(image_folder(tmp_path / "image")))
    error: HermesError = caught.value
    assert len(error.message) < 10_000
    assert "\x1b" not in error.message
    assert world.machines == {}
