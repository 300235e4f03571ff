"""Rows of ``images``: what was built, and from what."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import ImageId
from hermesops.model.image import Image
from hermesops.registry.repositories.base import Repository, insert_if_absent, insert_or_update
from hermesops.registry.schema.tables import images, meta


class ImageRepository(Repository):
    """Images that machines may boot from."""

    def record(
        self, image_id: ImageId, *, name: str, digest: str, manifest: Mapping[str, object] | None = None
    ) -> Image:
        """Remember a published image as the one that new machines of its name boot from.

        The row of an image already recorded stays as it is: who builds older inputs again gets the older image.
        """
        with self._database.writing() as connection:
            values = {
                "id": image_id,
                "name": name,
                "digest": digest,
                "manifest": dict(manifest or {}),
                "created_at": self._database.now(connection),
            }
            before = _asked_for(connection, name)
            if insert_if_absent(connection, images, values):
                self._note(connection, "image_recorded", f"image/{image_id}", after={"name": name, "digest": digest})
            elif before != image_id:
                self._note(connection, "image_chosen", f"image/{image_id}", before={"image": before})
            insert_or_update(connection, meta, {"name": _choice_of(name), "value": image_id})
            return _image(connection.execute(sa.select(images).where(images.c.id == image_id)).one())

    def forget(self, image_id: ImageId) -> None:
        """Drop the row of an image that the vendor no longer has; harmless when there is none."""
        with self._database.writing() as connection:
            if connection.execute(images.delete().where(images.c.id == image_id)).rowcount:
                self._note(connection, "image_forgotten", f"image/{image_id}")

    def list(self, name: str = "") -> tuple[Image, ...]:
        """Every image, or those of one name; newest first."""
        query = sa.select(images).order_by(images.c.created_at.desc(), images.c.id)
        if name:
            query = query.where(images.c.name == name)
        with self._database.reading() as connection:
            return tuple(_image(row) for row in connection.execute(query))

    def latest(self, name: str) -> Image | None:
        """The image of that name that was asked for last; the newest one where that is gone or not known."""
        found = self.list(name)
        with self._database.reading() as connection:
            chosen = _asked_for(connection, name)
        return next((image for image in found if image.id == chosen), found[0] if found else None)


def _choice_of(name: str) -> str:
    """Name of the row of ``meta`` that holds the id of the image asked for last."""
    return f"image/{name}"


def _asked_for(connection: sa.Connection, name: str) -> str | None:
    return connection.execute(sa.select(meta.c.value).where(meta.c.name == _choice_of(name))).scalar()


def _image(row: sa.Row[Any]) -> Image:
    return Image(ImageId(row.id), row.name, row.digest, row.created_at, row.manifest)
