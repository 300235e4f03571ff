"""Brings the files of a release into its store: each once, under the hash of its content."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.node.release.documents.lock import Blob
from hermesops.release.index import BLOBS, damage_of, place, read_blob
from hermesops.release.ports import Downloads, Store
from hermesops.release.requirements import Pin, known_wheels, pin_of


@dataclass(frozen=True)
class BlobStore:
    """The files of a store's releases.

    Attributes:
        store: Where they are.
        distrusts: Whether what is there is compared with its hash before it is left as it is.
    """

    store: Store
    distrusts: bool = False

    def keep(self, name: str, content: bytes) -> Blob:
        """Have a file there."""
        blob = blob_of(name, content)
        if not self.has(blob):
            self.store.write(place(blob), content)
            self._there.add(place(blob))
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether a file is there."""
        if self.distrusts:
            return not damage_of(blob, read_blob(self.store, blob))
        return place(blob) in self._there

    def content(self, blob: Blob) -> bytes:
        """A file that is there."""
        found = read_blob(self.store, blob)
        if found is None or damage_of(blob, found):
            raise BrokenInvariantError(
                f"{blob.name} in {self.store.url} is damaged", hint="hermesops release build --lock FILE mends it"
            )
        return found

    @cached_property
    def _there(self) -> set[str]:
        return set(self.store.list(BLOBS))


@dataclass(frozen=True)
class Gather:
    """Fetches wheels.

    Attributes:
        blob_store: Takes them.
        downloads: Fetches what is not there.
        scratch: An empty folder to work in.
    """

    blob_store: BlobStore
    downloads: Downloads
    scratch: Path

    def wheels(self, pins: Sequence[Pin], python: str, *, known: Iterable[Blob] = ()) -> tuple[Blob, ...]:
        """A wheel for each pin, by name.

        Args:
            pins: The whole set.
            python: Which Python they are for.
            known: Wheels of that Python that releases of this store brought.

        Raises:
            RefusedError: The index offers something else than was pinned.
            UnavailableError: It does not answer, or lacks a wheel.
        """
        found = {name: blob for name, blob in known_wheels(pins, known).items() if self.blob_store.has(blob)}
        missing = [pin for pin in pins if pin.name not in found]
        if missing:
            found |= self._fetched(missing, python)
        if absent := [pin.name for pin in pins if pin.name not in found]:
            raise UnavailableError(f"no wheel for Python {python} of {', '.join(absent)}")
        return tuple(sorted((found[pin.name] for pin in pins), key=lambda blob: blob.name))

    def _fetched(self, pins: Sequence[Pin], python: str) -> Mapping[str, Blob]:
        wanted, folder = self.scratch / f"wheels-{python}.txt", self.scratch / f"wheels-{python}"
        wanted.write_text("".join(pin.to_line() for pin in pins), encoding="utf-8")
        self.downloads.wheels(wanted, folder, python=python)
        blobs = [self.blob_store.keep(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
        return {pin_of(blob).name: blob for blob in blobs}


def blob_of(name: str, content: bytes) -> Blob:
    """What a lock says of a file."""
    return Blob(name, hashlib.sha256(content).hexdigest(), len(content))
