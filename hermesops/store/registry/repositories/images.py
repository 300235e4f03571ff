"""Rows of ``images``: built images and their sources."""

from collections.abc import Mapping

import sqlalchemy as sa

from hermesops.model.ids import ImageId
from hermesops.model.image import Image
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.repositories.base import Repository, insert_if_absent, insert_or_update
from hermesops.store.registry.schema.tables import images, meta


class ImageRepository(Repository):
    """Images that machines may boot from."""

    def record(
        self, image_id: ImageId, *, name: str, digest: str, manifest: Mapping[str, object] | None = None
    ) -> Image:
        """Record a published image as the one that new machines of its name boot from.

        The row of a recorded image stays as it is: a build of older inputs selects the older image again.
        """
        with self._database.writing() as connection:
            values = {
                "id": image_id,
                "name": name,
                "digest": digest,
                "manifest": dict(manifest or {}),
                "created_at": self._database.now(connection),
            }
            before = read_meta(connection, _choice_of(name))
            if insert_if_absent(connection, images, values):
                self._note(connection, "image_recorded", f"image/{image_id}", after={"name": name, "digest": digest})
            elif before != image_id:
                self._note(connection, "image_chosen", f"image/{image_id}", before={"image": before})
            insert_or_update(connection, meta, {"name": _choice_of(name), "value": image_id})
            row = connection.execute(sa.select(images).where(images.c.id == image_id)).one()
        return Image(**row._asdict())

    def list(self, name: str = "") -> tuple[Image, ...]:
        """Every image, or those of one name; newest first."""
        query = sa.select(images).order_by(images.c.created_at.desc(), images.c.id)
        if name:
            query = query.where(images.c.name == name)
        return tuple(Image(**row._asdict()) for row in self._rows(query))

    def latest(self, name: str) -> Image | None:
        """Return the image of that name that was recorded last; the newest one if that is not known."""
        recorded = self.list(name)
        with self._database.reading() as connection:
            chosen = read_meta(connection, _choice_of(name))
        return next((image for image in recorded if image.id == chosen), recorded[0] if recorded else None)


def _choice_of(name: str) -> str:
    """Name of the row of ``meta`` that holds the id of the image recorded last."""
    return f"image/{name}"
