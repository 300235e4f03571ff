"""A vendor, machines and Ansible for image builds, in dictionaries; and a death at any change of them."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from hermesops.machines.image.build import Builder, Recipe
from hermesops.machines.image.definition import AgentPins, Definition, load
from hermesops.machines.image.machines import Reporter
from hermesops.model.ids import MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.channel import Channel, Completed
from hermesops.vendor.justavps import Client, Image, ImageStatus, Machine, MachineOrder, MachineStatus
from hermesops.vendor.justavps.errors import LostChangeError, NotFoundError
from tests.support.crash.death import Death, KilledError

SCRIPTS = ("prepare.sh", "clean.sh", "prove.sh")
RELEASE = ReleaseId("0.19.0-0123456789ab")


@dataclass
class World(Client):
    """What exists at the vendor, and what was done to machines.

    Attributes:
        death: Of the process: each change is a step, and a dead process sees nothing any more.
        lose_save: Answer the next save with a lost answer, although it is done.
        broken: Lines that prove.sh prints.
        cleaned: Machines that clean.sh ran on.
        converged: Machines that roles were applied to, with the variables.
    """

    machines: dict[str, Machine] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    death: Death = field(default_factory=Death)
    lose_save: bool = False
    prove_exit: int = 42
    broken: tuple[str, ...] = ()
    shared_machine_id: bool = False
    cleaned: set[str] = field(default_factory=set)
    converged: list[str] = field(default_factory=list)

    def _alive(self) -> None:
        if self.death.is_dead:
            raise KilledError

    def _change(self, what: str) -> None:
        self.death.point()
        self.done.append(what)

    async def list_machines(self) -> list[Machine]:
        self._alive()
        return list(self.machines.values())

    async def get_machine(self, machine_id: str) -> Machine:
        self._alive()
        return self.machines[machine_id]

    async def create_machine(self, order: MachineOrder) -> Machine:
        existing = next((m for m in self.machines.values() if m.name == order.name), None)
        if existing:
            self._alive()
            return existing
        self._change(f"order {order.name}")
        machine = Machine(id=str(uuid.uuid4()), name=order.name, status=MachineStatus.READY, image_id=order.image_id)
        self.machines[machine.id] = machine
        self.death.point()
        return machine

    async def delete_machine(self, machine_id: str) -> None:
        self._change("delete machine")
        self.machines.pop(machine_id, None)
        self.death.point()

    async def list_images(self) -> list[Image]:
        self._alive()
        return list(self.images.values())

    async def get_image(self, image_id: str) -> Image:
        self._alive()
        if image_id not in self.images:
            raise NotFoundError("GET /images", "no such image", status=404)
        return self.images[image_id]

    async def delete_image(self, image_id: str) -> None:
        self._change("delete image")
        self.images.pop(image_id, None)
        self.death.point()

    async def save_image(self, machine_id: str, *, name: str) -> Image:
        assert machine_id in self.cleaned, "saved before it was cleaned"
        self._change("save")
        image = Image(id=str(uuid.uuid4()), name=name, status=ImageStatus.READY, provider_image_id="p-1")
        self.images[image.id] = image
        self.death.point()
        if self.lose_save:
            self.lose_save = False
            raise LostChangeError("POST /machines/image", "no answer")
        return image

    async def converge(self, machine_id: MachineId, playbook: str, variables: Mapping[str, object]) -> None:
        self.converged.append(f"{machine_id} {variables}")
        self._change(f"converge {playbook}")
        self.death.point()

    async def release(self, pins: AgentPins) -> ReleaseId:
        self._alive()
        assert pins.wanted
        return RELEASE

    async def install(self, machine_id: MachineId, release: ReleaseId, python: str) -> None:
        assert machine_id in self.machines
        assert self.done[-1].startswith("converge"), "before the roles"
        self._change(f"install {release} {python}")
        self.death.point()

    async def verify(self, machine_id: MachineId) -> tuple[str, ...]:
        self._alive()
        assert machine_id in self.machines
        return ()

    def channel_to(self, machine_id: MachineId) -> Channel:
        return cast("Channel", _Shell(self, machine_id))

    def run_script(self, machine_id: str, script: str) -> Completed:
        """What a script of the image does; it is known by its own text, see ``image_folder``."""
        if script == "clean.sh":
            self._change(script)
            self.cleaned.add(machine_id)
            self.death.point()
        self._alive()
        if script == "prove.sh":
            return Completed(self.prove_exit, "\n".join(self.broken).encode(), b"")
        return Completed(0, b"", b"")

    def observe(self, machine_id: str) -> Completed:
        self._alive()
        expected = {
            "distribution": "debian",
            "version": "12",
            "architecture": "x86_64",
            "python": "3.11",
            "machine_id": "shared" if self.shared_machine_id else machine_id,
            "debian": {"nftables": "1.0.6"},
            "agent": {"hermes_agent": "0.19.0"},
            "release": RELEASE,
        }
        return Completed(0, json.dumps(expected).encode(), b"")


@dataclass
class _Shell:
    world: World
    machine_id: str

    async def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 60) -> Completed:
        assert timeout_s > 0
        if command == "true":
            return Completed(0, b"", b"")
        script = stdin.decode().strip()
        return (
            self.world.run_script(self.machine_id, script) if script in SCRIPTS else self.world.observe(self.machine_id)
        )


def image_folder(folder: Path) -> Definition:
    """A whole image folder whose scripts do nothing but say their names."""
    (folder / "locks").mkdir(parents=True)
    for script in SCRIPTS:
        (folder / script).write_text(script)
    (folder / "locks/agent.txt").write_text("# python 3.11\nhermes-agent==0.19.0 --hash=sha256:0\n")
    (folder / "locks/agent.in").write_text("hermes-agent[mcp]==0.19.0\n")
    (folder / "locks/sdist.txt").write_text("hermes-agent==0.19.0 --hash=sha256:1\n")
    (folder / "definition.toml").write_text(
        """
name = "test-image"
playbook = "test.yml"
roles = ["first"]
prepare = ["prepare.sh"]
clean = ["clean.sh"]
prove = ["prove.sh"]
[agent]
wanted = "locks/agent.in"
sdist = "locks/sdist.txt"
[agent.locks]
"3.11" = "locks/agent.txt"
[uv]
version = "1"
sha256 = "2"
[sqlite]
url = "https://sqlite.test/a.zip"
sha256 = "3"
"""
    )
    return load(folder)


def recipe_of(definition: Definition, **changes: str) -> Recipe:
    """A recipe with one input, so that a changed one is a changed digest."""
    return Recipe(definition, {"only": "a" * 64, **changes}, "local", "starter", "hel1")


def builder_of(world: World, folder: Path, report: Reporter) -> Builder:
    """A builder whose whole surroundings are the world."""
    return Builder(
        vendor=world,
        channel_to=world.channel_to,
        converge=world.converge,
        verify=world.verify,
        refuse_unsigned=lambda: None,
        release=world.release,
        install=world.install,
        manifests=folder / "manifests",
        report=report,
    )
