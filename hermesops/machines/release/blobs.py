"""The files of releases in a store, each once, under the hash of its content."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.wire.documents.lock import Blob

if TYPE_CHECKING:  # the engines load for 0.1 s
    from hermesops.infra.engine.embedded.state.storage import Storage

BLOBS = "blobs"
"""Folder of a store."""


@dataclass(frozen=True)
class BlobStore:
    """The files of a store's releases.

    Attributes:
        distrusts: Whether a file that is there is compared with its hash before it is kept.
    """

    store: "Storage"
    distrusts: bool = False

    def keep(self, name: str, content: bytes) -> Blob:
        """Put a file there, unless it is."""
        blob = blob_of(name, content)
        if not self.has(blob):
            self.store.write(place(blob), content)
            self._there.add(place(blob))
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether the store contains a file; a store that is distrusted is read and compared."""
        if self.distrusts:
            return not damage_of(blob, read_blob(self.store, blob))
        return place(blob) in self._there

    def content(self, blob: Blob) -> bytes:
        """Read a file from the store and compare it with its hash."""
        content = read_blob(self.store, blob)
        if content is None or damage_of(blob, content):
            raise BrokenInvariantError(
                f"{blob.name} in {self.store.url} is damaged",
                hint=Hint(("release", "build", "--lock", "FILE"), "mends it"),
            )
        return content

    @cached_property
    def _there(self) -> set[str]:
        return set(self.store.list(BLOBS))


def blob_of(name: str, content: bytes) -> Blob:
    """Name, SHA-256 and size of a file, as locks list it."""
    return Blob(name, hashlib.sha256(content).hexdigest(), len(content))


def place(blob: Blob) -> str:
    """Path of a release's file in a store, by its SHA-256."""
    return f"{BLOBS}/{blob.sha256}"


def read_blob(store: "Storage", blob: Blob) -> bytes | None:
    """Read a release's file from a store, at most one byte more than its signed size; ``None`` if it is missing."""
    return store.read(place(blob), at_most=blob.size + 1)


def damage_of(blob: Blob, data: bytes | None) -> str:
    """Compare a file's content with its lock entry: the problem as the end of a sentence, empty when they match."""
    if data is None:
        return "is missing"
    if len(data) > blob.size:
        return f"has more than {blob.size} bytes"
    if len(data) != blob.size:
        return f"has {len(data)} bytes instead of {blob.size}"
    return "" if hashlib.sha256(data).hexdigest() == blob.sha256 else "is something else than was signed"
