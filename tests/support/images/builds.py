"""Builds images in a real local world as ``hermesops image build`` does, with something planted to search for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesops import assets
from hermesops.image.build import Builder, Built, Recipe
from hermesops.image.definition import Definition, inputs_of, load
from hermesops.image.download import Pip
from hermesops.model.ids import ImageId, MachineId
from hermesops.node import build as node
from tests.support.worlds.converged import ConvergedWorld, shared_cache

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

    async def converge(self, machine_id: MachineId, playbook: str, variables: Mapping[str, object]) -> None:
        await self.world.converger.apply(machine_id, playbook, variables, report=self.said.append)
        planted = await self.world.channel(machine_id).run(PLANT)
        assert planted.exit_code == 0, planted.stderr

    async def verify(self, machine_id: MachineId) -> tuple[str, ...]:
        self.said.append(machine_id)
        return ()

    @property
    def builder(self) -> Builder:
        return Builder(
            vendor=self.world.client,
            channel_to=self.world.channel,
            converge=self.converge,
            verify=self.verify,
            downloads=Pip(os.environ),  # noqa: TID251 - pip's own settings, as a user has them
            cache=shared_cache(),
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
        told = {**variables, "hermes_node_program": str(program)}
        return Recipe(definition, inputs, "local", "starter", "hel1", told, {"hermesops": "test"})


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
    def image_id(self) -> ImageId:
        return ImageId(self.built.manifest.image_id)


async def make(workshop: Workshop) -> Made:
    """Build the image we ship."""
    definition = load(assets.folder("images") / "hermes-base")
    recipe = workshop.recipe(definition, assets.folder("ansible") / "playbooks")
    return Made(workshop, recipe, await workshop.builder.build(recipe))
