"""Shapes of images that machines boot from."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.machines.image.build import Built
    from hermesops.model.image import Image


def image(row: "Image") -> dict[str, object]:
    """An image in the registry, from which machines boot."""
    return {"name": row.name, "id": row.id, "digest": row.digest, "created_at": timestamp(row.created_at)}


def built(build: "Built") -> dict[str, object]:
    """A build, with the seconds of each of its steps; ``made`` is false where the image was there already."""
    manifest = build.manifest
    return {
        "name": manifest.name,
        "id": manifest.image_id,
        "digest": manifest.digest,
        "made": build.made,
        "seconds": manifest.seconds,
    }
