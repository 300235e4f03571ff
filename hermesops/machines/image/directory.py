"""Images of an environment: listed from the registry, and built under a lease."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.model.image import Image
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.machines.image.build import Builder, Built, Recipe
    from hermesops.store.operations.leases.keeper import LeaseKeeper


@dataclass(frozen=True)
class Images:
    """Finds images; nobody but the registry is asked."""

    registry: Registry

    def list(self) -> tuple[Image, ...]:
        """Read all recorded images from the registry, the newest first."""
        return self.registry.images.list()


@dataclass(frozen=True)
class ImageBuilds:
    """Builds images and records them.

    Attributes:
        recipe: Makes the recipe of an image by its name; refuses one that no machine here boots.
        hold_lease: Holds the lease of a subject, or refuses.
    """

    registry: Registry
    builder: "Builder"
    recipe: "Callable[[str], Awaitable[Recipe]]"
    hold_lease: "Callable[[str], LeaseKeeper]"

    async def build(self, name: str) -> "Built":
        """Build an image unless there is one of the same inputs, and record it: new machines boot from it.

        Raises:
            UsageError: There is no such image.
            RefusedError: No machine of this environment boots it.
            LeaseHeldError: Another process builds it.
            HermesError: It could not be built; building it again continues.
        """
        async with self.hold_lease(f"image/{name}"):
            built = await self.builder.build(await self.recipe(name))
            manifest = built.manifest
            self.registry.images.record(
                manifest.image_id, name=manifest.name, digest=manifest.digest, manifest=manifest.to_json()
            )
        return built
