"""Builds a release again from its lock: the result is that release, byte for byte, or nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hermesops.base.narration import counted
from hermesops.errors import Hint, RefusedError
from hermesops.machines.release import requirements
from hermesops.machines.release.blobs import BlobStore, blob_of
from hermesops.machines.release.builder.build import Builder, Built, read_file, workplace_in
from hermesops.machines.release.builder.parts import PACKAGE
from hermesops.machines.release.builder.wheels import WheelFetcher
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.requirements import pin_of
from hermesops.machines.release.source import resources
from hermesops.machines.release.source.archive import MAX_ARCHIVE, SourceTree, read_tree
from hermesops.machines.release.source.build import BuiltSource
from hermesops.machines.release.sqlite import is_of_sqlite
from hermesops.wire.documents.lock import Blob, Lock


@dataclass(frozen=True)
class Rebuilder:
    """Builds releases again from their locks: fetches or makes each missing or damaged part.

    The result is the release that the lock names, byte for byte, or nothing.

    Attributes:
        files: Files that may be parts of it: the agent's wheel or source archive, where no index has them.
        pinned: The same, by hash: an archive or a Python, at a path or an address; read where a part is missing.
    """

    builder: Builder
    files: Sequence[Path] = ()
    pinned: Sequence[PinnedFile] = ()

    def build(self, lock: Lock, *, who: str, note: str, at: datetime) -> Built:
        """Put exactly this release into the store, complete and signed.

        Raises:
            RefusedError: A part of it is no longer available.
            UnavailableError: The package index does not answer.
        """
        blob_store = BlobStore(self.builder.releases.store, distrusts=True)
        with self.builder.workplace() as scratch:
            missing = {blob.sha256: blob for blob in lock.all_blobs() if not blob_store.has(blob)}
            files = (*self.files, *(self._fetched(scratch) if missing else ()))
            for name, content in self._made(lock, missing, files, scratch):
                if missing.pop(blob_of(name, content).sha256, None):
                    blob_store.keep(name, content)
            for python, wheels in lock.pythons.items():
                pins = [pin_of(wheel) for wheel in wheels.wheels if wheel.sha256 in missing]
                if lock.origin != "index" and any(pin.name == PACKAGE for pin in pins):
                    named = ("--source", "ARCHIVE") if lock.origin == "source" else ("--from", "WHEEL")
                    raise RefusedError(
                        f"the agent of release {lock.id} is on no package index",
                        hint=Hint(("release", "build", "--lock", "FILE", *named), "names it"),
                    )
                if pins:
                    self.builder.report(f"gathering {counted(len(pins), 'wheel')} for Python {python}")
                    for blob in WheelFetcher(blob_store, self.builder.downloads, scratch).wheels(pins, python):
                        missing.pop(blob.sha256, None)
        if missing:
            names = ", ".join(sorted(blob.name for blob in missing.values()))
            raise RefusedError(
                f"release {lock.id} cannot be rebuilt here: {names} would be something else now",
                hint="put its blobs back from a copy of the store, or build a new release",
            )
        return self.builder.put(lock, who=who, note=note, at=at)

    def _fetched(self, scratch: Path) -> tuple[Path, ...]:
        """The pinned files in a folder, each under its own name."""
        folder = workplace_in(scratch, "given")
        files = []
        for number, pin in enumerate(self.pinned):
            file = workplace_in(folder, str(number)) / pin.name
            file.write_bytes(pin.read(at_most=MAX_ARCHIVE, report=self.builder.report))
            files.append(file)
        return tuple(files)

    def _made(
        self, lock: Lock, missing: Mapping[str, Blob], files: Sequence[Path], scratch: Path
    ) -> Iterator[tuple[str, bytes]]:
        """Candidates for its parts, made anew where one is missing; the hash says whether they match."""
        parts = self.builder.parts
        for file in files:
            yield file.name, read_file(file)
        for python, wheels in lock.pythons.items():
            yield wheels.requirements.name, requirements.render(python, wheels.wheels)
        yield from parts.site.items()
        variables: Mapping[str, str] = {}
        if lock.origin == "source" and (tree := self._tree(lock, missing, files)):
            built = self._built(lock, tree, files, scratch)
            variables = resources.variables_of(built.resources)
            yield built.wheel.name, built.wheel.content
            yield lock.skills.name, resources.skills_of(tree)
            yield resources.RESOURCES, resources.packed(built.resources)
        if any(is_of_sqlite(blob.name) for blob in missing.values()):
            known = [release.lock for release in self.builder.releases.list() if release.lock.id != lock.id]
            read = BlobStore(self.builder.releases.store).content
            yield from parts.sqlite.files(known, read, self.builder.report).items()
        for notifies in (True, False):
            yield lock.unit.name, parts.unit.render(notifies=notifies, resources=variables)
        if lock.node.program.sha256 in missing:
            yield lock.node.program.name, parts.program()
        if lock.uv.sha256 in missing:
            yield lock.uv.name, parts.uv(workplace_in(scratch, "uv"))
        if lock.skills.sha256 in missing and lock.origin != "source":
            yield lock.skills.name, parts.skills(self._source(lock, files, scratch))

    def _tree(self, lock: Lock, missing: Mapping[str, Blob], files: Sequence[Path]) -> SourceTree | None:
        """The tree that a release was built of, where a part of it is missing; ``None`` where nothing is."""
        own = next(blob for wheels in lock.pythons.values() for blob in wheels.wheels if pin_of(blob).name == PACKAGE)
        parts = {own.sha256, lock.skills.sha256, lock.unit.sha256, *([lock.resources.sha256] if lock.resources else [])}
        if not parts & missing.keys():
            return None
        archive = next((file for file in _archives(lock, files) if not file.name.endswith(".whl")), None)
        if archive is None:
            return None
        content = read_file(archive)
        return read_tree(archive.name, content, blob_of(archive.name, content).sha256)

    def _built(self, lock: Lock, tree: SourceTree, files: Sequence[Path], scratch: Path) -> BuiltSource:
        builder, folder, interpreter = self.builder, workplace_in(scratch, "rebuilt"), None
        if lock.interpreter:
            archive = lock.interpreter.archive
            path = folder / archive.name
            path.write_bytes(self._archive(archive, files))
            interpreter = builder.interpreter(PinnedFile((str(path),), archive.sha256))
        return builder.sources().build(tree, interpreter, sorted(lock.pythons), folder)

    def _archive(self, archive: Blob, files: Sequence[Path]) -> bytes:
        for file in files:
            content = read_file(file)
            if blob_of(file.name, content).sha256 == archive.sha256:
                return content
        return BlobStore(self.builder.releases.store, distrusts=True).content(archive)

    def _source(self, lock: Lock, files: Sequence[Path], scratch: Path) -> Path:
        builder = self.builder
        archive = next((file for file in _archives(lock, files) if file.name.endswith(".tar.gz")), None)
        if archive or lock.origin == "wheel":
            return archive or builder.source(None, scratch)
        python = min(lock.pythons)
        text = builder.resolver.resolve(f"{PACKAGE}=={lock.agent_version}", python)
        return builder.source(next(pin for pin in requirements.parse(text) if pin.name == PACKAGE), scratch)


def _archives(lock: Lock, files: Sequence[Path]) -> Iterator[Path]:
    """The files that are not the release's Python."""
    python = lock.interpreter.archive.sha256 if lock.interpreter else ""
    return (file for file in files if blob_of(file.name, read_file(file)).sha256 != python)
