"""Builds images in a real local world as ``hermesops image build`` does, with something planted to search for."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.base import assets
from hermesops.machines.image.build import Builder, Built, Recipe
from hermesops.machines.image.definition import AgentPins, Definition, inputs_of, load
from hermesops.machines.image.packages.download import NEWEST_GLIBC, Pip
from hermesops.machines.release.builder import build as releases
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.releases import HandedOut, Releases
from hermesops.machines.release.service import image_request, parts_of
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.programs.node import build as node
from hermesops.wire.documents.lock import Lock
from tests.support.real.sqlite import sqlite_builder
from tests.support.releases.signer import Operator
from tests.support.suite.kept import shared_cache
from tests.support.worlds.local.converged import ConvergedWorld

CANARY = "canary-7f3a19c2"
PLANT = f"""
mkdir -p /root/.ssh /var/lib/hermes/logs && cd /root
for file in .bash_history .ssh/authorized_keys .wget-hsts /tmp/left /var/tmp/left /var/log/some.log \
    /var/lib/hermes/logs/agent.log /etc/justavps/env; do echo {CANARY} >>"$file"; done
logger {CANARY} && journalctl --sync
"""


@dataclass
class Workshop:
    """What builds here."""

    world: ConvergedWorld
    said: list[str] = field(default_factory=list)
    releases: Releases = field(init=False)

    def __post_init__(self) -> None:
        operator = Operator(self.world.folder, "release")
        self.releases = operator.releases(str(self.world.folder / "releases"))
        self.releases.replace_signers(operator.line, sign_again=False)

    async def converge(self, machine_id: MachineId, playbook: str, variables: Mapping[str, object]) -> None:
        await self.world.converger.apply(machine_id, playbook, variables, report=self.said.append)
        planted = await self.world.channel(machine_id).run(PLANT)
        assert planted.exit_code == 0, planted.stderr

    async def release(self, pins: AgentPins) -> ReleaseId:
        environ = os.environ  # noqa: TID251 - pip's own settings, as a user has them
        pip = Pip(environ, shared_cache() / "packages")
        resolver = Resolver(environ, glibc=NEWEST_GLIBC)
        parts = parts_of(pins, pip, sqlite_builder())
        builder = releases.Builder(self.releases, resolver, pip, parts, self.world.folder / "scratch", self.said.append)
        build = partial(builder.build, image_request(pins), who="test", note="", at=datetime.now(UTC))
        return ReleaseId((await asyncio.to_thread(build)).lock.id)

    async def install(self, machine_id: MachineId, release: ReleaseId, python: str) -> None:
        await ReleaseClient(self.world.channel).install(machine_id, self.bundle_of(release), python=python)

    def bundle_of(self, release: ReleaseId) -> HandedOut:
        return HandedOut(release, self.releases)

    async def verify(self, machine_id: MachineId) -> tuple[str, ...]:
        self.said.append(machine_id)
        return ()

    @property
    def builder(self) -> Builder:
        return Builder(
            vendor=self.world.client,
            channel_to=self.world.channel,
            converge=self.converge,
            refuse_unsigned=lambda: None,
            release=self.release,
            install=self.install,
            verify=self.verify,
            manifests=self.world.folder / "manifests",
            report=self.said.append,
        )

    def recipe(self, definition: Definition, playbooks: Path) -> Recipe:
        program = self.world.folder / "hermes-node"
        node.write(program)
        variables = self.world.base_variables
        inputs = inputs_of(
            definition,
            roles=assets.folder("roles"),
            playbooks=playbooks,
            variables=variables,
            extra={"hermes-node": program},
        )
        given = {**variables, "hermes_node_program": str(program)}
        return Recipe(definition, inputs, "local", "starter", "hel1", given, {"hermesops": "test"})


@dataclass
class Made:
    """A build that ended."""

    workshop: Workshop
    recipe: Recipe
    built: Built

    @property
    def world(self) -> ConvergedWorld:
        return self.workshop.world

    @property
    def release(self) -> Lock:
        """What its machines run at first."""
        return self.workshop.releases.read(self.built.manifest.versions["release"])

    @property
    def image_id(self) -> ImageId:
        return ImageId(self.built.manifest.image_id)


async def make(workshop: Workshop) -> Made:
    """Build the image we ship."""
    definition = load(assets.folder("images") / "hermes-base")
    recipe = workshop.recipe(definition, assets.folder("ansible") / "playbooks")
    return Made(workshop, recipe, await workshop.builder.build(recipe))
