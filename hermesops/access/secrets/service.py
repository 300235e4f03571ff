"""Changes of an environment's secrets: set one, or rotate the registry's key."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from hermesops.access.registry_place import RegistryPlace
from hermesops.access.secrets.catalog import REGISTRY_KEY, SecretSpec
from hermesops.access.secrets.keyring.key_ring import parse_ring
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.access.secrets.keyring.rotation import KeyRotation, RotationPreview
from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry

_SUBJECT = "registry/key"
_FOREIGN_COPIES = timedelta(days=90)
"""How long the database's own backups may be restored; hermesops cannot see them."""

_RECORDS = timedelta(days=7)
"""How long recovery records may still need a retired key: workers seal them anew within the hour."""


@dataclass(frozen=True)
class SecretChanges:
    """Changes the secrets of one environment.

    Attributes:
        registry: Opens the registry: its own key may have to be set before.
        place: Where copies of the registry are: they need older keys.
    """

    secrets: Secrets
    registry: Callable[[], Registry]
    place: Callable[[], RegistryPlace]
    hold_lease: Callable[[str], LeaseKeeper]
    report: Callable[[str], None]

    def set(self, needed: SecretSpec, text: str, *, why: str) -> str:
        """Store a new text of a secret; returns its place. The audit records the change, never the text.

        Raises:
            UsageError: The text is empty, or no key ring where one is needed.
            RefusedError: It would lose keys that the registry may need, or its backend is read-only.
        """
        text = text.strip()
        if not text:
            raise UsageError(
                f"{needed.name}: the text is empty", hint=Hint(("secrets", "set", needed.name, "--from", "FILE"))
            )
        if needed == REGISTRY_KEY:
            self._refuse_lost_keys(text)
        else:
            self.registry().now()  # what cannot be written down is not done; a lost key of its own it gets first
        self.secrets.write(needed, text)
        self.registry().audit.append("secret_set", f"secret/{needed.name}", why=why)
        return self.secrets.where(needed)

    async def rotate_registry_key(self, *, why: str) -> str:
        """Rotate it, or end a rotation that was cut short; id of the key that seals now.

        Raises:
            RefusedError: Somebody else rotates it right now, its home takes nothing, or something does not open.
        """
        async with self.hold_lease(_SUBJECT):
            return await asyncio.to_thread(self._rotation().run, why=why)  # it may take longer than a lease lasts

    def preview_registry_key(self) -> RotationPreview:
        """The state from which a rotation begins or continues; nothing is changed.

        Raises:
            RefusedError: The registry's key is not at hand here.
        """
        return self._rotation().preview()

    async def prepare_registry_key(self) -> str:
        """Only add a key that other computers can be given before it is used; its id.

        Raises:
            RefusedError: Somebody else rotates it right now, or its home takes nothing.
        """
        async with self.hold_lease(_SUBJECT):
            return self._rotation().prepare()

    def _refuse_lost_keys(self, text: str) -> None:
        secrets = self.secrets
        try:
            ring = Ring.parse(text)
        except ValueError:
            raise UsageError(
                "the text is no key ring of the registry",
                hint=Hint(("secrets", "rotate", "registry.key"), "makes new keys"),
            ) from None
        stored = secrets.find(REGISTRY_KEY) if secrets.held(REGISTRY_KEY).is_there else None
        if stored is None:
            return
        lost = parse_ring(stored, secrets.where(REGISTRY_KEY)).keys.keys() - ring.keys.keys()
        if lost:
            raise RefusedError(
                f"the new ring lacks {', '.join(sorted(lost))}, which {secrets.where(REGISTRY_KEY)} has",
                hint=Hint(
                    "if these keys are not needed, move the old ring away first;", ("registry", "check"), "tells"
                ),
            )

    def _rotation(self) -> KeyRotation:
        return KeyRotation(
            self.registry(),
            partial(self.secrets.read, REGISTRY_KEY),
            partial(self.secrets.write, REGISTRY_KEY),
            source=self.secrets.where(REGISTRY_KEY),
            now=self.registry().now,
            needed_since=self._needed_since,
            report=self.report,
        )

    def _needed_since(self) -> datetime:
        recorded = datetime.now(UTC) - _RECORDS
        return min(self._oldest_copy() or recorded, recorded)

    def _oldest_copy(self) -> datetime | None:
        try:
            taken = self.place().copies.list()
        except RefusedError:  # PostgreSQL's backups are its own
            return datetime.now(UTC) - _FOREIGN_COPIES
        return min((copy.taken_at for copy in taken), default=None)
