"""Rows of ``images``: what was built, and from what."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import ImageId
from hermesops.model.image import Image
from hermesops.registry.rows import Rows, insert_if_absent
from hermesops.registry.schema import images


class ImageRows(Rows):
    """Images that machines may boot from."""

    def record_image(
        self, image_id: ImageId, *, name: str, digest: str, manifest: Mapping[str, object] | None = None
    ) -> Image:
        """Remember a published image; an image already recorded stays as it is."""
        with self._database.writing() as connection:
            values = {
                "id": image_id,
                "name": name,
                "digest": digest,
                "manifest": dict(manifest or {}),
                "created_at": self._database.now(connection),
            }
            if insert_if_absent(connection, images, values):
                self._note(connection, "image_recorded", f"image/{image_id}", after={"name": name, "digest": digest})
            return _image(connection.execute(sa.select(images).where(images.c.id == image_id)).one())

    def forget_image(self, image_id: ImageId) -> None:
        """Drop the row of an image that the vendor no longer has; harmless when there is none."""
        with self._database.writing() as connection:
            if connection.execute(images.delete().where(images.c.id == image_id)).rowcount:
                self._note(connection, "image_forgotten", f"image/{image_id}")

    def list_images(self, name: str = "") -> tuple[Image, ...]:
        """Every image, or those of one name; newest first."""
        query = sa.select(images).order_by(images.c.created_at.desc(), images.c.id)
        if name:
            query = query.where(images.c.name == name)
        with self._database.reading() as connection:
            return tuple(_image(row) for row in connection.execute(query))

    def latest_image(self, name: str) -> Image | None:
        """The newest image of that name."""
        found = self.list_images(name)
        return found[0] if found else None


def _image(row: sa.Row[Any]) -> Image:
    return Image(ImageId(row.id), row.name, row.digest, row.created_at, row.manifest)
