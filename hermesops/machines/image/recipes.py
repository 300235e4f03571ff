"""Recipes of images: the definition with the programs, variables and settings of this environment."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesops import __version__
from hermesops.base import assets
from hermesops.machines.image import definition
from hermesops.machines.image.build import Recipe
from hermesops.machines.image.definition import Definition
from hermesops.machines.image.monitoring import machine_monitoring
from hermesops.model.plan import Plan
from hermesops.programs.node import build as node
from hermesops.settings.environment import Environment


@dataclass(frozen=True)
class ImageRecipes:
    """Makes recipes of images.

    Attributes:
        base_variables: Gives variables of role ``hermes_base``.
        loki: The program Loki, if this computer has it.
        of_platform: Makes the recipe of the platform's image; builds missing programs of the platform first.
    """

    env: Environment
    base_variables: Callable[[], Mapping[str, object]]
    loki: Path
    of_platform: Callable[[Definition], Awaitable[Recipe]]

    async def to_build(self, image: str) -> Recipe:
        """The recipe of any image.

        Raises:
            UsageError: There is no such image.
            RefusedError: No machine of this environment boots it.
        """
        loaded = definition.of_image(image)
        return self.of_agents(image) if loaded.agent else await self.of_platform(loaded)

    def of_agents(self, image: str) -> Recipe:
        """The recipe of an image for agents' machines; writes the program hermes-node into the cache.

        Raises:
            UsageError: There is no such image.
        """
        loaded, settings = definition.of_image(image), self.env.settings
        program = self.env.cache / "node" / "hermes-node"
        program.parent.mkdir(parents=True, exist_ok=True)
        node.write(program)
        base, chosen = self.base_variables(), settings.monitoring
        monitoring = machine_monitoring(chosen.profile, chosen.loki, self.loki, time_scale=chosen.time_scale)
        inputs = definition.inputs_of(
            loaded,
            roles=assets.folder("roles"),
            playbooks=assets.folder("ansible") / "playbooks",
            variables={**base, **monitoring.inputs},
            extra={"hermes-node": program},
        )
        return Recipe(
            definition=loaded,
            inputs=inputs,
            environment=self.env.name,
            server_type=settings.server_types[Plan.LIGHT],
            region=settings.region,
            variables={**base, **monitoring.variables, "hermes_node_program": str(program)},
            versions={"hermesops": __version__},
            note=monitoring.note,
        )
