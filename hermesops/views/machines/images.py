"""Shapes of images that machines boot from."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.machines.image.build import Built
    from hermesops.machines.image.directory import ImagePreview
    from hermesops.model.image import Image


def image(row: "Image") -> dict[str, object]:
    """An image in the registry, from which machines boot."""
    return {"name": row.name, "id": row.id, "digest": row.digest, "created_at": timestamp(row.created_at)}


def preview(foreseen: "ImagePreview") -> dict[str, object]:
    """A build that was not made; ``same`` is the image of the same inputs, null where a build makes one."""
    same = image(foreseen.same) if foreseen.same else None
    return {"name": foreseen.name, "digest": foreseen.digest, "same": same}


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
