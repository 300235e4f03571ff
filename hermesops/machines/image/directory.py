"""Images of an environment: listed from the registry, and built under a lease."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.model.image import Image
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.machines.image.build import Builder, Built, Recipe
    from hermesops.store.operations.leases.keeper import LeaseKeeper
    from hermesops.wire.documents.lock import Lock


@dataclass(frozen=True)
class Images:
    """Finds images; nobody but the registry is asked."""

    registry: Registry

    def list(self) -> tuple[Image, ...]:
        """Read all recorded images from the registry, the newest first."""
        return self.registry.images.list()


@dataclass(frozen=True)
class ImagePreview:
    """A build of an image that was not made.

    Attributes:
        digest: Of its inputs.
        same: The image of the same inputs; ``None`` where there is none, and a build makes one.
    """

    name: str
    digest: str
    same: Image | None


@dataclass(frozen=True)
class ImageBuilds:
    """Builds images and records them.

    Attributes:
        recipe: Makes the recipe of an image by its name; refuses one that no machine here boots.
        hold_lease: Holds the lease of a subject, or refuses.
        find_release: The lock of a release that machines may run, by its id or its agent's version.
    """

    registry: Registry
    builder: "Builder"
    recipe: "Callable[[str], Awaitable[Recipe]]"
    hold_lease: "Callable[[str], LeaseKeeper]"
    find_release: "Callable[[str], Lock]"

    async def preview(self, name: str, *, release: str = "") -> ImagePreview:
        """The build of an image that is not made; raises as ``build`` where a name is wrong, and changes nothing."""
        lock = self.find_release(release) if release else None
        recipe = await self.recipe(name)
        digest = (recipe.with_release(lock) if lock else recipe).digest
        same = next((image for image in self.registry.images.list(name) if image.digest == digest), None)
        return ImagePreview(name, digest, same)

    async def build(self, name: str, *, release: str = "") -> "Built":
        """Build an image unless there is one of the same inputs, and record it: new machines boot from it.

        Its machines run ``release`` at first; empty for the one that is built of the image's locks.

        Raises:
            UsageError: There is no such image or release, or the image has no agent.
            RefusedError: No machine of this environment boots it, or no machine may run the release.
            LeaseHeldError: Another process builds it.
            HermesError: It could not be built; building it again continues.
        """
        lock = self.find_release(release) if release else None
        async with self.hold_lease(f"image/{name}"):
            recipe = await self.recipe(name)
            built = await self.builder.build(recipe.with_release(lock) if lock else recipe)
            manifest = built.manifest
            self.registry.images.record(
                manifest.image_id, name=manifest.name, digest=manifest.digest, manifest=manifest.to_json()
            )
        return built
