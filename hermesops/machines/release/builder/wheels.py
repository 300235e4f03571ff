"""The wheels of a release: those in the store first, the others from the package index of this computer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermesops.errors import UnavailableError
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release.blobs import BlobStore
from hermesops.machines.release.requirements import Pin, known_wheels, pin_of
from hermesops.wire.documents.lock import Blob


@dataclass(frozen=True)
class WheelFetcher:
    """Collects the wheels of a release: those in the store first, the others from the package index."""

    blob_store: BlobStore
    downloads: Pip
    scratch: Path

    def wheels(self, pins: Sequence[Pin], python: str, *, known: Iterable[Blob] = ()) -> tuple[Blob, ...]:
        """A wheel for each pin, by name.

        ``known`` are wheels of that Python in releases of this store.

        Raises:
            RefusedError: The index offers a file with another hash.
            UnavailableError: It does not answer, or lacks a wheel.
        """
        wheels = {name: blob for name, blob in known_wheels(pins, known).items() if self.blob_store.has(blob)}
        missing = [pin for pin in pins if pin.name not in wheels]
        if missing:
            wheels |= self._fetched(missing, python)
        if absent := [pin.name for pin in pins if pin.name not in wheels]:
            raise UnavailableError(f"no wheel for Python {python} of {', '.join(absent)}")
        return tuple(sorted((wheels[pin.name] for pin in pins), key=lambda blob: blob.name))

    def _fetched(self, pins: Sequence[Pin], python: str) -> Mapping[str, Blob]:
        requirements_file, folder = self.scratch / f"wheels-{python}.txt", self.scratch / f"wheels-{python}"
        requirements_file.write_text("".join(pin.to_line() for pin in pins), encoding="utf-8")
        self.downloads.wheels(requirements_file, folder, python=python)
        blobs = [self.blob_store.keep(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
        return {pin_of(blob).name: blob for blob in blobs}
