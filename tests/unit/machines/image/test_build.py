import asyncio
from dataclasses import fields, replace
from pathlib import Path

import pytest

from hermesops.errors import HaltedError, RefusedError, UnavailableError, UsageError
from hermesops.machines.image.machines import names_of
from hermesops.machines.image.manifest import find
from hermesops.machines.image.simulated import SimulatedBuilder
from hermesops.model.ids import MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.justavps import Image, ImageStatus, Machine, MachineStatus
from tests.support.crash.death import Death, KilledError
from tests.support.hostile.parsers import LOCK
from tests.support.images.build_world import RELEASE, World, builder_of, image_folder, recipe_of

CHANGES = ["order", "converge", "install", "clean.sh", "save", "delete machine", "order", "delete machine"]


@pytest.fixture
def reports() -> list[str]:
    return []


async def test_a_build_leaves_one_image_and_no_machine(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    built = await builder_of(world, tmp_path, reports.append).build(recipe)
    assert built.made
    assert [image.name for image in world.images.values()] == [recipe.names.image]
    assert world.machines == {}
    assert [change if change in CHANGES else change.split()[0] for change in world.done] == CHANGES
    assert built.manifest.packages == {"debian": {"nftables": "1.0.6"}, "agent": {"hermes_agent": "0.19.0"}}
    assert built.manifest.versions == {"hermes-agent": "0.19.0", "release": RELEASE, "python": "3.11"}
    assert built.manifest.inputs == recipe.inputs


async def test_an_unchanged_build_does_nothing(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    builder = builder_of(world, tmp_path, reports.append)
    first = await builder.build(recipe)
    changes = len(world.done)
    second = await builder.build(recipe)
    assert not second.made
    assert second.manifest == first.manifest
    assert len(world.done) == changes


async def test_a_changed_input_makes_another_image(tmp_path: Path, reports: list[str]) -> None:
    world, definition = World(), image_folder(tmp_path / "image")
    builder = builder_of(world, tmp_path, reports.append)
    first = await builder.build(recipe_of(definition))
    second = await builder.build(recipe_of(definition, other="b" * 64))
    assert second.made
    assert second.manifest.image_id != first.manifest.image_id


async def test_an_image_that_the_vendor_lost_is_built_again(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    builder = builder_of(world, tmp_path, reports.append)
    await builder.build(recipe)
    world.images.clear()
    assert (await builder.build(recipe)).made
    assert len(world.images) == 1


async def test_a_build_that_is_forced_makes_a_second_image(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    builder = builder_of(world, tmp_path, reports.append)
    await builder.build(recipe)
    assert (await builder.build(recipe, again="2")).made
    assert sorted(i.name for i in world.images.values()) == [recipe.names.image, f"{recipe.names.image}-2"]


@pytest.mark.parametrize("at", range(1, 2 * len(CHANGES) + 1))
async def test_a_killed_build_is_finished_by_the_next(tmp_path: Path, reports: list[str], at: int) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    world.death = Death(at)
    with pytest.raises(KilledError):
        await builder_of(world, tmp_path, reports.append).build(recipe)
    world.death = Death()
    built = await builder_of(world, tmp_path, reports.append).build(recipe)
    assert [image.id for image in world.images.values()] == [built.manifest.image_id]
    assert world.machines == {}
    assert world.done.count("save") == 1


async def test_machines_of_a_killed_build_of_other_inputs_are_removed_and_others_left(
    tmp_path: Path, reports: list[str]
) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    stale = names_of("local", "test-image", "c" * 64)
    elsewhere = names_of("staging", "test-image", "c" * 64)
    users = "hermes-local-c1-0123456789ab"
    for name in (stale.builder, stale.proof, elsewhere.builder, users):
        world.machines[name] = Machine(id=name, name=name, status=MachineStatus.READY)
    await builder_of(world, tmp_path, reports.append).build(recipe)
    assert set(world.machines) == {elsewhere.builder, users}


async def test_a_lost_answer_to_saving_does_not_save_twice(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(lose_save=True), recipe_of(image_folder(tmp_path / "image"))
    await builder_of(world, tmp_path, reports.append).build(recipe)
    assert world.done.count("save") == 1


async def test_a_failed_save_of_an_earlier_build_is_thrown_away(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    world.images["old"] = Image(id="old", name=recipe.names.image, status=ImageStatus.FAILED)
    built = await builder_of(world, tmp_path, reports.append).build(recipe)
    assert list(world.images) == [built.manifest.image_id]


async def test_an_image_that_breaks_a_promise_is_deleted_and_named(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    world.prove_exit, world.broken = 43, ("ok booted", "broken no host keys")
    with pytest.raises(HaltedError, match="no host keys") as halted:
        await builder_of(world, tmp_path, reports.append).build(recipe)
    assert "booted" not in halted.value.message
    assert world.images == {}
    assert world.machines == {}
    assert find(tmp_path / "manifests", "test-image", recipe.digest) is None


async def test_an_image_that_keeps_the_builders_machine_id_is_refused(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(shared_machine_id=True), recipe_of(image_folder(tmp_path / "image"))
    with pytest.raises(HaltedError, match="machine-id"):
        await builder_of(world, tmp_path, reports.append).build(recipe)


@pytest.mark.parametrize("exit_code", [0, 1, 137])
async def test_a_proof_that_was_cut_short_proves_nothing(tmp_path: Path, reports: list[str], exit_code: int) -> None:
    world, recipe = World(prove_exit=exit_code), recipe_of(image_folder(tmp_path / "image"))
    with pytest.raises(UnavailableError, match="without a verdict"):
        await builder_of(world, tmp_path, reports.append).build(recipe)
    assert world.machines == {}
    assert len(world.images) == 1


async def test_an_image_of_another_release_installs_that_and_is_another_image(
    tmp_path: Path, reports: list[str]
) -> None:
    world, plain = World(), recipe_of(image_folder(tmp_path / "image"))
    recipe = plain.with_release(LOCK)
    built = await builder_of(world, tmp_path, reports.append).build(recipe)
    assert f"install {LOCK.id} 3.11" in world.done
    assert (built.manifest.inputs["release"], recipe.names.image == plain.names.image) == (LOCK.digest, False)
    assert plain.with_release(replace(LOCK, config_schema=99)).digest != recipe.digest
    without = replace(plain, definition=replace(plain.definition, agent=None))
    with pytest.raises(UsageError, match="has no agent"):
        without.with_release(LOCK)


async def test_simulated_machines_come_with_a_release_of_their_own(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image")).with_release(LOCK)
    real = builder_of(world, tmp_path, reports.append)
    builder = SimulatedBuilder(**{field.name: getattr(real, field.name) for field in fields(real)})
    with pytest.raises(RefusedError, match="come with their own release"):
        await builder.build(recipe)
    assert world.done == []


async def test_the_release_is_installed_for_the_machines_python(tmp_path: Path, reports: list[str]) -> None:
    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    await builder_of(world, tmp_path, reports.append).build(recipe)
    assert f"install {RELEASE} 3.11" in world.done


async def test_an_image_without_an_agent_has_neither_release_nor_slot_and_its_script_alone_proves_it(
    tmp_path: Path, reports: list[str]
) -> None:
    world, definition = World(), replace(image_folder(tmp_path / "image"), agent=None)

    async def checks_of_an_agent(_: MachineId) -> tuple[str, ...]:
        return ("there is no agent",)

    builder = replace(builder_of(world, tmp_path, reports.append), verify=checks_of_an_agent)
    built = await builder.build(recipe_of(definition))
    assert [change.split()[0] for change in world.done if change != "delete machine"] == [
        *("order", "converge", "clean.sh", "save", "order")
    ]
    assert built.manifest.packages == {"debian": {"nftables": "1.0.6"}}
    assert built.manifest.versions == {"python": "3.11"}
    assert {"release", "slot"}.isdisjoint(built.manifest.seconds)
    world.prove_exit, world.broken = 43, ("broken no database",)
    with pytest.raises(HaltedError, match="no database"):
        await builder.build(recipe_of(definition, other="b" * 64))


async def test_where_nobody_signs_releases_no_machine_is_rented(tmp_path: Path, reports: list[str]) -> None:
    def refuse() -> None:
        raise RefusedError("nobody signs releases")

    world, definition = World(), image_folder(tmp_path / "image")
    builder = replace(builder_of(world, tmp_path, reports.append), refuse_unsigned=refuse)
    with pytest.raises(RefusedError, match="nobody signs"):
        await builder.build(recipe_of(definition))
    assert world.done == []
    assert (await builder.build(recipe_of(replace(definition, agent=None)))).made, "it has no release"


async def test_the_packages_are_fetched_while_the_roles_are_applied(tmp_path: Path, reports: list[str]) -> None:
    converging, fetched = asyncio.Event(), asyncio.Event()

    async def converge(*_: object) -> None:
        converging.set()
        await fetched.wait()
        world.done.append("converge")

    async def release(_: object) -> ReleaseId:
        await converging.wait()
        fetched.set()
        return RELEASE

    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    builder = replace(builder_of(world, tmp_path, reports.append), converge=converge, release=release)
    async with asyncio.timeout(20):
        assert (await builder.build(recipe)).made


async def test_without_its_release_the_roles_end_and_no_machine_is_left(tmp_path: Path, reports: list[str]) -> None:
    converging = asyncio.Event()

    async def converge(*_: object) -> None:
        converging.set()
        try:
            await asyncio.Event().wait()
        finally:
            world.done.append("ended")

    async def no_index(_: object) -> ReleaseId:
        await converging.wait()
        raise UnavailableError("no package index")

    world, recipe = World(), recipe_of(image_folder(tmp_path / "image"))
    builder = replace(builder_of(world, tmp_path, reports.append), converge=converge, release=no_index)
    async with asyncio.timeout(20):
        with pytest.raises(UnavailableError, match="no package index"):
            await builder.build(recipe)
    assert [change.split()[0] for change in world.done] == ["order", "ended", "delete"]
    assert (world.machines, world.images) == ({}, {})
