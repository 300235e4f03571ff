"""Builds a release again from its lock: whatever of it is missing or damaged in the store is fetched or made anew.

What comes out is the release that the lock names, byte for byte, or nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hermesops.errors import RefusedError
from hermesops.node.release.documents.lock import Blob, Lock
from hermesops.release import requirements
from hermesops.release.builder.agent import PACKAGE
from hermesops.release.builder.build import Builder, Built, read_file, workplace_in
from hermesops.release.builder.gather import BlobStore, Gather, blob_of
from hermesops.release.requirements import pin_of


@dataclass(frozen=True)
class Rebuilder:
    """Builds releases again.

    Attributes:
        builder: What built them.
        given: Files that may be parts of it: the agent's wheel or source archive where no index has them.
    """

    builder: Builder
    given: Sequence[Path] = ()

    def build(self, lock: Lock, *, who: str, note: str, at: datetime) -> Built:
        """Have this very release in the store, whole and signed.

        Raises:
            RefusedError: A part of it can no longer be had.
            UnavailableError: The package index does not answer.
        """
        blob_store = BlobStore(self.builder.releases.store, distrusts=True)
        with self.builder.workplace() as folder:
            scratch = Path(folder)
            missing = {blob.sha256: blob for blob in lock.all_blobs() if not blob_store.has(blob)}
            for name, content in self._made(lock, missing, scratch):
                if missing.pop(blob_of(name, content).sha256, None):
                    blob_store.keep(name, content)
            for python, wheels in lock.pythons.items():
                wanted = [pin_of(wheel) for wheel in wheels.wheels if wheel.sha256 in missing]
                if lock.origin == "wheel" and any(pin.name == PACKAGE for pin in wanted):
                    raise RefusedError(
                        f"the agent of release {lock.id} is on no package index",
                        hint="hermesops release build --lock FILE --from WHEEL names its wheel",
                    )
                if wanted:
                    self.builder.tell(f"gathering {len(wanted)} wheels for Python {python}")
                    for blob in Gather(blob_store, self.builder.downloads, scratch).wheels(wanted, python):
                        missing.pop(blob.sha256, None)
        if missing:
            names = ", ".join(sorted(blob.name for blob in missing.values()))
            raise RefusedError(
                f"release {lock.id} cannot be made again here: {names} would be something else now",
                hint="put its blobs back from a copy of the store, or build a new release",
            )
        return self.builder.put(lock, who=who, note=note, at=at)

    def _made(self, lock: Lock, missing: Mapping[str, Blob], scratch: Path) -> Iterator[tuple[str, bytes]]:
        """What may be parts of it, made anew where one is missing; the hash says whether they are."""
        parts = self.builder.parts
        for file in self.given:
            yield file.name, read_file(file)
        for python, wheels in lock.pythons.items():
            yield wheels.requirements.name, requirements.render(python, wheels.wheels)
        yield from parts.site.items()
        for notifies in (True, False):
            yield lock.unit.name, parts.unit.render(notifies=notifies)
        if lock.node.program.sha256 in missing:
            yield lock.node.program.name, parts.program()
        if lock.uv.sha256 in missing:
            yield lock.uv.name, parts.uv(workplace_in(scratch, "uv"))
        if lock.skills.sha256 in missing:
            yield lock.skills.name, parts.skills(self._source(lock, scratch))

    def _source(self, lock: Lock, scratch: Path) -> Path:
        builder = self.builder
        given = next((file for file in self.given if file.name.endswith(".tar.gz")), None)
        if given or lock.origin == "wheel":
            return given or builder.source(None, scratch)
        python = min(lock.pythons)
        text = builder.resolver.resolve(f"{PACKAGE}=={lock.agent_version}", python)
        return builder.source(next(pin for pin in requirements.parse(text) if pin.name == PACKAGE), scratch)
