"""Builds a release: resolve once, read the agent's wheel, fetch every file, lock, sign.

A killed build is started again: files are kept by their hash, and a release exists once its lock does.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.base.narration import counted
from hermesops.errors import RefusedError, UsageError
from hermesops.machines.capabilities import capabilities_of
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release import requirements
from hermesops.machines.release.blobs import BlobStore, blob_of
from hermesops.machines.release.builder.parts import PACKAGE, Agent, Parts, read_agent
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.builder.wheels import WheelFetcher
from hermesops.machines.release.interpreter import OwnPython, own_python
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.releases import Releases
from hermesops.machines.release.requirements import Pin, pin_of, runs_everywhere
from hermesops.machines.release.source import resources
from hermesops.machines.release.source.archive import MAX_ARCHIVE, read_tree
from hermesops.machines.release.source.build import BuiltSource, SourceBuilder, chosen_pythons
from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.project import read_project
from hermesops.machines.release.sqlite import LOADER
from hermesops.wire.documents.lock import Blob, Interpreter, Lock, Managed, Node, Origin, Wheels
from hermesops.wire.errors import NodeError
from hermesops.wire.settings import merged

SKILLS = "skills.tar.gz"

Reporter = Callable[[str], None]


@dataclass(frozen=True)
class BuildRequest:
    """An order for a release.

    Attributes:
        agent: The agent's version on the package index; empty where a wheel is given.
        wheel: A wheel of an agent that the index lacks.
        source: Its source archive, which has the bundled skills; without it an older agent's skills are used.
        archive: A tag's archive, of which the agent is built.
        interpreter: A Python that the release brings, in the place of the machines' own.
        pythons: Versions of Python on machines, as ``3.11``.
        managed: Overrides the settings that the agent's version asks for.
        pinned: The set of packages by Python, as the resolver prints it; a Python without one is resolved.
    """

    agent: str = ""
    wheel: Path | None = None
    source: Path | None = None
    archive: PinnedFile | None = None
    interpreter: PinnedFile | None = None
    pythons: tuple[str, ...] = ()
    managed: Managed = field(default_factory=Managed)
    pinned: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """A release that is in the store.

    Attributes:
        made: Whether this build put it there.
    """

    lock: Lock
    made: bool


@dataclass(frozen=True)
class Builder:
    """Builds releases: resolves packages, gathers wheels and signs locks."""

    releases: Releases
    resolver: Resolver
    downloads: Pip
    parts: Parts
    scratch: Path
    report: Reporter
    isolation: Isolation = field(default_factory=Isolation)

    def build(self, order: BuildRequest, *, who: str, note: str, at: datetime) -> Built:
        """Put a release of an agent into the store; blocks for a minute for each Python when nothing is cached.

        Raises:
            UsageError: The request names no agent, or no Python.
            RefusedError: There is no such agent, its capabilities are unknown, no set of packages fits it, or a given
                file is damaged.
            UnavailableError: The package index does not answer.
        """
        if sum(map(bool, (order.agent, order.wheel, order.archive))) != 1 or not order.pythons:
            raise UsageError("a release is of an agent's version, a wheel or a source, for at least one Python")
        with self.workplace() as scratch:
            lock = self._lock(order, scratch)
        return self.put(lock, who=who, note=note, at=at)

    def workplace(self) -> AbstractContextManager[Path]:
        """Create a temporary folder below ``scratch``; it is removed at the end of the block."""
        return scratch_folder(self.scratch, "release-")

    def put(self, lock: Lock, *, who: str, note: str, at: datetime) -> Built:
        """Keep a release whose files are all in the store, signed."""
        try:
            Lock.from_json(lock.to_json())
        except NodeError as error:
            raise RefusedError(f"the built release is not valid: {error}") from error
        is_new = not self.releases.holds(lock)
        if is_new:
            self.releases.put(lock, who=who, note=note, at=at)
        return Built(lock, is_new)

    def _lock(self, order: BuildRequest, scratch: Path) -> Lock:
        blob_store, known = BlobStore(self.releases.store), [release.lock for release in self.releases.list()]
        fetcher = WheelFetcher(blob_store, self.downloads, scratch)
        interpreter = self.interpreter(order.interpreter) if order.interpreter else None
        source = self._built_source(order, interpreter, scratch)
        own = blob_store.keep(source.wheel.name, source.wheel.content) if source else self._own(order, blob_store)
        offered = read_agent(own.name, blob_store.content(own)) if own else None
        version, wanted = (offered.version, offered.pythons) if offered else (order.agent, "")
        if caution := capabilities_of(version).caution:
            self.report(f"caution, hermes-agent {version}: {caution}")
        pythons: dict[str, Wheels] = {}
        any_python: list[Blob] = []
        pins: tuple[Pin, ...] = ()
        for python in chosen_pythons(f"hermes-agent {version}", wanted, order.pythons, interpreter):
            if source and own:
                pins = (pin_of(own), *source.pins[python])
            else:
                text = order.pinned.get(python) or self._resolved(order, version, python)
                pins = tuple(pin_of(own) if own and pin.name == PACKAGE else pin for pin in requirements.parse(text))
            kept_wheels = [blob for lock in known if python in lock.pythons for blob in lock.pythons[python].wheels]
            self.report(f"gathering {counted(len(pins), 'wheel')} for Python {python}")
            wheels = fetcher.wheels(pins, python, known=[*any_python, *kept_wheels, *([own] if own else [])])
            any_python += filter(runs_everywhere, wheels)
            listed = blob_store.keep("requirements.txt", requirements.render(python, wheels))
            pythons[python] = Wheels(listed, wheels)
        wheel = next(blob for blob in next(iter(pythons.values())).wheels if pin_of(blob).name == PACKAGE)
        agent = read_agent(wheel.name, blob_store.content(wheel))
        origin: Origin = "source" if source else "wheel" if own else "index"
        parts = self.parts
        lock = self._written(
            blob_store,
            agent,
            origin,
            pythons,
            order.managed,
            uv=parts.uv(workplace_in(scratch, "uv")),
            skills=blob_store.keep(SKILLS, resources.skills_of(source.tree))
            if source
            else self._skills(order, pins, known, blob_store, scratch),
            program=parts.program(),
            variables=resources.variables_of(source.resources) if source else {},
        )
        lock = replace(
            lock,
            interpreter=kept_interpreter(interpreter, blob_store) if interpreter else None,
            resources=blob_store.keep(resources.RESOURCES, resources.packed(source.resources))
            if source and source.resources
            else None,
        )
        return self._with_sqlite(lock, known, blob_store)

    def interpreter(self, pin: PinnedFile) -> OwnPython:
        """Read and check a Python that a release is to bring; see ``release.interpreter``."""
        self.report(f"checking the Python {pin.name}")
        return own_python(pin, self.isolation, self.report)

    def sources(self) -> SourceBuilder:
        """Builds the agent from source trees."""
        return SourceBuilder(self.isolation, self.downloads, self.resolver.program, self.parts.extras, self.report)

    def _built_source(self, order: BuildRequest, interpreter: OwnPython | None, scratch: Path) -> BuiltSource | None:
        if order.archive is None:
            return None
        pin = order.archive
        tree = read_tree(pin.name, pin.read(at_most=MAX_ARCHIVE, report=self.report), pin.sha256)
        wanted = str(read_project(tree).pythons)
        pythons = chosen_pythons(f"the agent of {tree.name}", wanted, order.pythons, interpreter)
        return self.sources().build(tree, interpreter, pythons, scratch)

    def _with_sqlite(self, lock: Lock, known: Sequence[Lock], blob_store: BlobStore) -> Lock:
        files = self.parts.sqlite.files(known, blob_store.content, self.report)
        # A Python with a SQLite of its own would load the library in vain; hermes-node uses it all the same.
        is_loaded = lock.interpreter is None or not lock.interpreter.sqlite
        added = (blob_store.keep(name, content) for name, content in files.items() if is_loaded or name != LOADER)
        return replace(lock, site=tuple(sorted((*lock.site, *added), key=lambda blob: blob.name)))

    def _resolved(self, order: BuildRequest, version: str, python: str) -> str:
        self.report(f"resolving hermes-agent {version} for Python {python}")
        requirement = f"{PACKAGE}{self.parts.extras}=={version}"
        return self.resolver.resolve(requirement, python, wheels=order.wheel.parent if order.wheel else None)

    def _written(  # noqa: PLR0913 - a lock has so many parts
        self,
        blob_store: BlobStore,
        agent: Agent,
        origin: Origin,
        pythons: dict[str, Wheels],
        managed: Managed,
        *,
        uv: bytes,
        skills: Blob,
        program: bytes,
        variables: Mapping[str, str] | None = None,
    ) -> Lock:
        parts = self.parts
        watchdog: dict[str, Any] = {
            "gateway": {"systemd_watchdog_seconds": parts.unit.watchdog_s(notifies=agent.notifies)}
        }
        needed = capabilities_of(agent.version).managed
        return Lock(
            agent_version=agent.version,
            origin=origin,
            config_schema=agent.config_schema,
            pythons=pythons,
            uv=blob_store.keep("uv", uv),
            skills=skills,
            site=tuple(blob_store.keep(name, parts.site[name]) for name in sorted(parts.site)),
            unit=blob_store.keep(
                "hermes-gateway.service", parts.unit.render(notifies=agent.notifies, resources=variables)
            ),
            managed=Managed(
                merged(merged(watchdog, needed.config), managed.config), {**needed.environment, **managed.environment}
            ),
            node=Node(parts.protocol, blob_store.keep("hermes-node", program)),
        )

    def _own(self, order: BuildRequest, blob_store: BlobStore) -> Blob | None:
        if order.wheel is None:
            return None
        content = read_file(order.wheel)
        pin_of(blob_of(order.wheel.name, content))
        capabilities_of(read_agent(order.wheel.name, content).version)  # before it is kept
        return blob_store.keep(order.wheel.name, content)

    def _skills(
        self, order: BuildRequest, pins: tuple[Pin, ...], known: Sequence[Lock], blob_store: BlobStore, scratch: Path
    ) -> Blob:
        if order.source is not None:
            read_file(order.source)
            return blob_store.keep(SKILLS, self.parts.skills(order.source))
        if order.wheel is not None:
            self.report("the bundled skills are those of an older agent: no source archive was given")
            return blob_store.keep(SKILLS, self.parts.skills(self.source(None, scratch)))
        pin = next(pin for pin in pins if pin.name == PACKAGE)
        for lock in known:
            # Of the same agent from an index, so from the same source archive.
            if lock.origin == "index" and pin.hashes & {blob.sha256 for blob in lock.all_blobs()}:
                return lock.skills
        return blob_store.keep(SKILLS, self.parts.skills(self.source(pin, scratch)))

    def source(self, pin: Pin | None, scratch: Path) -> Path:
        """The agent's source archive, which has the bundled skills as no wheel has; without a pin an older agent's.

        Raises:
            UnavailableError: The package index does not answer.
        """
        requirements_file, folder = self.parts.source, scratch / "source"
        if pin is not None:
            requirements_file = scratch / "source.txt"
            requirements_file.write_text(pin.to_line(), encoding="utf-8")
        self.report("fetching the bundled skills")
        self.downloads.source(requirements_file, folder)
        files = list(folder.iterdir())
        if len(files) != 1:
            raise RefusedError(f"the package index has {len(files)} source archives where one was expected")
        return files[0]


def kept_interpreter(interpreter: OwnPython, blob_store: BlobStore) -> Interpreter:
    """Keep the archive of a Python that a release brings."""
    archive = blob_store.keep(interpreter.kept_name, interpreter.content)
    return Interpreter(interpreter.version, archive, interpreter.sqlite)


def read_file(file: Path) -> bytes:
    """The content of a file that an operator named.

    Raises:
        RefusedError: It cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise RefusedError(f"{file} cannot be read: {error.strerror}", hint=f"ls -l {file}") from error


def workplace_in(scratch: Path, name: str) -> Path:
    """An empty folder in an empty folder."""
    folder = scratch / name
    folder.mkdir()
    return folder
