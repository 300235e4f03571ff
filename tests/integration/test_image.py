"""The image we ship, built through a real local world; then a machine booted from it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.errors import HaltedError
from hermesops.machines.image.definition import load
from hermesops.machines.image.machines import is_build_machine
from hermesops.model.ids import MachineId
from tests.support.images.builds import CANARY, Made, Workshop
from tests.support.real.machines.agents import role_variables
from tests.support.real.machines.bases import tested_base
from tests.support.real.machines.machine import base_python

pytestmark = [pytest.mark.machines, pytest.mark.turns(160)]

BASES = {
    "base-debian12": ("debian", "12"),
    "base-debian13": ("debian", "13"),
    "base-ubuntu2404": ("ubuntu", "24.04"),
}


@pytest.fixture(scope="module")
async def machine_id(built_image: Made) -> AsyncIterator[MachineId]:
    async with built_image.world.machine(image_id=built_image.built.manifest.image_id) as machine_id:
        yield machine_id


async def test_a_build_ends_with_an_image_a_manifest_and_no_machine(built_image: Made) -> None:
    manifest = built_image.built.manifest
    assert built_image.built.made
    assert [machine.name for machine in await built_image.world.client.list_machines()] == []
    assert [image.id for image in await built_image.world.client.list_images()] == [manifest.image_id]
    distribution, version = BASES[tested_base().name]
    system = {"distribution": distribution, "version": version, "architecture": "x86_64", "python": base_python()}
    assert manifest.base == system
    assert manifest.packages["agent"]["hermes_agent"] == built_image.release.agent_version == "0.19.0"
    assert built_image.workshop.releases.verify(manifest.versions["release"]) == ()
    assert "nftables" in manifest.packages["debian"]
    assert manifest.inputs["roles/hermes_base/tasks/main.yml"]
    assert set(manifest.seconds) == {"machine", "roles", "slot", "prepare", "clean", "save", "boot", "prove"}


async def test_an_unchanged_build_does_nothing(built_image: Made) -> None:
    again = await built_image.workshop.builder.build(built_image.recipe)
    assert not again.made
    assert again.manifest == built_image.built.manifest


async def test_what_was_on_the_builder_is_not_in_the_image(built_image: Made, machine_id: MachineId) -> None:
    """Searched from the root of a machine booted from it, the command's own text excepted."""
    first, second = CANARY.split("-")
    search = f'grep -rlIa --exclude-dir=proc --exclude-dir=sys --exclude-dir=run "{first}[-]{second}" / 2>/dev/null'
    completed = await built_image.world.channel(machine_id).run(search, timeout_s=120)
    assert completed.text == ""


async def test_the_agents_home_is_begun_and_holds_nothing_of_anybody(built_image: Made, machine_id: MachineId) -> None:
    observe = """
import json, os, sqlite3
database = sqlite3.connect("file:/var/lib/hermes/state.db?mode=ro", uri=True)
print(json.dumps({
    "skills": os.path.exists("/var/lib/hermes/skills/.bundled_manifest"),
    "sessions": database.execute("select count(*) from sessions").fetchone()[0],
    "messages": database.execute("select count(*) from messages").fetchone()[0],
    "home": sorted(os.listdir("/var/lib/hermes")),
}))
"""
    done = await built_image.world.channel(machine_id).run("runuser -u hermes python3 -", stdin=observe.encode())
    document = json.loads(done.stdout)
    assert (document["skills"], document["sessions"], document["messages"]) == (True, 0, 0)
    assert not {".env", "config.yaml", "auth.json"} & set(document["home"])


async def test_roles_find_nothing_to_do_on_a_machine_from_the_image(built_image: Made, machine_id: MachineId) -> None:
    again = await built_image.world.apply(
        machine_id, built_image.recipe.definition.roles, role_variables(built_image.world)
    )
    assert again.status == "done", again.failure
    assert again.changed == ()


async def test_two_machines_of_one_image_are_told_apart(built_image: Made, machine_id: MachineId) -> None:
    async with built_image.world.machine(image_id=built_image.built.manifest.image_id) as other:
        lines = [
            (await built_image.world.channel(each).run("cat /etc/machine-id; sha256sum /etc/justavps/*")).text
            for each in (machine_id, other)
        ]
    assert lines[0].splitlines()[0] != lines[1].splitlines()[0]


async def test_an_image_that_was_not_cleaned_is_refused_and_deleted(workshop: Workshop, built_image: Made) -> None:
    """With the base role alone and no release, so it also lacks an agent: each broken promise is named."""
    folder = workshop.world.folder / "unclean"
    await asyncio.to_thread(shutil.copytree, built_image.recipe.definition.folder, folder)
    (folder / "prepare.sh").write_text("true\n")
    (folder / "clean.sh").write_text("ssh-keygen -A\n")  # not every base has host keys by itself
    (folder.parent / "clean.sh").write_text("true\n")
    await asyncio.to_thread(shutil.copy, built_image.recipe.definition.prove[0], folder.parent)
    playbook = workshop.world.playbook("hermes_base")
    definition = replace(load(folder), playbook=playbook.name, roles=("hermes_base",))
    recipe = workshop.recipe(definition, playbook.parent)
    builder = replace(workshop.builder, converge=_With(workshop, playbook), install=_install_nothing)
    with pytest.raises(HaltedError, match="no host keys") as halted:
        await builder.build(recipe)
    for promise in ("no host keys", "no journal of another machine", "no command history", "an agent"):
        assert promise in halted.value.message
    assert "the firewall is closed" not in halted.value.message
    assert [image.id for image in await workshop.world.client.list_images()] == [built_image.built.manifest.image_id]
    names = [machine.name for machine in await workshop.world.client.list_machines()]
    assert not [name for name in names if is_build_machine(name, "local")]


async def _install_nothing(*_: object) -> None:
    """In place of the release."""


@dataclass
class _With:
    """Applies a playbook that stands outside the project's folder."""

    workshop: Workshop
    playbook: Path

    async def __call__(self, machine_id: MachineId, playbook: str, variables: Mapping[str, object]) -> None:
        assert playbook == self.playbook.name
        await self.workshop.converge(machine_id, str(self.playbook), variables)
