"""The registry's key, rotated: its ring is where the environment's secrets are, its values in the registry."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.keyring.rotation import KeyRotation

_SUBJECT = "registry/key"
_FOREIGN_COPIES = timedelta(days=90)
"""How long somebody may want back a copy that the database's own backups hold; nobody tells us of those."""


async def rotate_registry_key(app: "Container", *, why: str) -> str:
    """Rotate it, or end a rotation that was cut short; id of the key that seals now.

    Raises:
        RefusedError: Somebody else rotates it right now, its home takes nothing, or something does not open.
    """
    async with app.hold_lease(_SUBJECT):
        return await asyncio.to_thread(_rotation(app).run, why=why)  # it may take longer than a lease lives


async def prepare_registry_key(app: "Container") -> str:
    """Only add a key that other computers can be given before it is used; its id.

    Raises:
        RefusedError: Somebody else rotates it right now, or its home takes nothing.
    """
    async with app.hold_lease(_SUBJECT):
        return _rotation(app).prepare()


def _rotation(app: "Container") -> "KeyRotation":
    from hermesops.keyring.rotation import KeyRotation
    from hermesops.secrets.catalog import REGISTRY_KEY

    registry, secrets = app.registry, app.secrets
    return KeyRotation(
        registry,
        partial(secrets.read, REGISTRY_KEY),
        partial(secrets.write, REGISTRY_KEY),
        source=secrets.where(REGISTRY_KEY),
        now=registry.now,
        needed_since=partial(_oldest_copy, app),
        tell=app.tell,
    )


def _oldest_copy(app: "Container") -> datetime | None:
    try:
        taken = app.registry_place.copies.list()
    except RefusedError:  # PostgreSQL's backups are its own
        return datetime.now(UTC) - _FOREIGN_COPIES
    return min((one.taken_at for one in taken), default=None)
