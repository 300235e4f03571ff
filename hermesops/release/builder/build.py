"""Builds a release: resolve once, read the agent's wheel, gather every file, lock, sign.

Killed anywhere it is started again: files are kept by their hash, and a release is there once its lock is.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from hermesops.errors import RefusedError, UsageError
from hermesops.node.errors import NodeError
from hermesops.node.instance.render import merged
from hermesops.node.release.documents.lock import Blob, Lock, Managed, Node, Origin, Wheels
from hermesops.release import requirements
from hermesops.release.builder.agent import PACKAGE, Agent, read_agent
from hermesops.release.builder.gather import BlobStore, Gather, blob_of
from hermesops.release.builder.parts import Parts
from hermesops.release.ports import Downloads, Resolves
from hermesops.release.releases import Releases
from hermesops.release.requirements import Pin, pin_of

SKILLS = "skills.tar.gz"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class BuildRequest:
    """What to build.

    Attributes:
        agent: The agent's version on the package index; empty where a wheel is given.
        wheel: A wheel of an agent that the index lacks.
        source: The source archive that goes with it and has the bundled skills; without it they are an older agent's.
        pythons: For machines of which Pythons.
        managed: Laid over what the agent's version asks for.
    """

    agent: str = ""
    wheel: Path | None = None
    source: Path | None = None
    pythons: tuple[str, ...] = ()
    managed: Managed = field(default_factory=Managed)


@dataclass(frozen=True)
class Built:
    """A release that is in the store.

    Attributes:
        made: Whether it came there now.
    """

    lock: Lock
    made: bool


@dataclass(frozen=True)
class Builder:
    """Builds releases with what it is given.

    Attributes:
        releases: The store they go to, and those that are there.
        scratch: Folder for what is thrown away again.
        tell: Called with a line of progress.
    """

    releases: Releases
    resolver: Resolves
    downloads: Downloads
    parts: Parts
    scratch: Path
    tell: Tell

    def build(self, order: BuildRequest, *, who: str, note: str, at: datetime) -> Built:
        """Have a release of an agent in the store; blocks, a minute for each Python when nothing is cached.

        Raises:
            UsageError: The order names no agent, or no Python.
            RefusedError: There is no such agent or no set of packages for it, or what was given is damaged.
            UnavailableError: The package index does not answer.
        """
        if bool(order.agent) == (order.wheel is not None) or not order.pythons:
            raise UsageError("a release is of an agent's version or of a wheel, for at least one Python")
        with self.workplace() as scratch:
            lock = self._lock(order, Path(scratch))
        return self.put(lock, who=who, note=note, at=at)

    def workplace(self) -> "tempfile.TemporaryDirectory[str]":
        """An empty folder for a while."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=self.scratch, prefix="release-")

    def put(self, lock: Lock, *, who: str, note: str, at: datetime) -> Built:
        """Keep a release whose files are all in the store, signed."""
        try:
            Lock.from_json(lock.to_json())
        except NodeError as error:
            raise RefusedError(f"what was built is no release: {error}") from error
        made = not self.releases.holds(lock)
        if made:
            self.releases.put(lock, who=who, note=note, at=at)
        return Built(lock, made)

    def _lock(self, order: BuildRequest, scratch: Path) -> Lock:
        blob_store, known = BlobStore(self.releases.store), [kept.lock for kept in self.releases.list()]
        gather = Gather(blob_store, self.downloads, scratch)
        own = self._own(order, blob_store)
        version = read_agent(own.name, blob_store.content(own)).version if own else order.agent
        pythons: dict[str, Wheels] = {}
        pins: tuple[Pin, ...] = ()
        for python in sorted(set(order.pythons)):
            self.tell(f"resolving hermes-agent {version} for Python {python}")
            wanted = f"{PACKAGE}{self.parts.extras}=={version}"
            text = self.resolver.resolve(wanted, python, wheels=order.wheel.parent if order.wheel else None)
            pins = tuple(pin_of(own) if own and pin.name == PACKAGE else pin for pin in requirements.parse(text))
            kept = [blob for lock in known if python in lock.pythons for blob in lock.pythons[python].wheels]
            self.tell(f"gathering {len(pins)} wheels for Python {python}")
            wheels = gather.wheels(pins, python, known=[*kept, *([own] if own else [])])
            listed = blob_store.keep("requirements.txt", requirements.render(python, wheels))
            pythons[python] = Wheels(listed, wheels)
        agent = self._agent(blob_store, pythons)
        origin: Origin = "wheel" if own else "index"
        parts = self.parts
        return self._written(
            blob_store,
            agent,
            origin,
            pythons,
            order.managed,
            uv=parts.uv(workplace_in(scratch, "uv")),
            skills=self._skills(order, pins, known, blob_store, scratch),
            program=parts.program(),
        )

    def _written(
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
    ) -> Lock:
        parts = self.parts
        watchdog: dict[str, Any] = {
            "gateway": {"systemd_watchdog_seconds": parts.unit.watchdog_s(notifies=agent.notifies)}
        }
        return Lock(
            agent_version=agent.version,
            origin=origin,
            config_schema=agent.config_schema,
            pythons=pythons,
            uv=blob_store.keep("uv", uv),
            skills=skills,
            site=tuple(blob_store.keep(name, parts.site[name]) for name in sorted(parts.site)),
            unit=blob_store.keep("hermes-gateway.service", parts.unit.render(notifies=agent.notifies)),
            managed=Managed(merged(watchdog, managed.config), dict(managed.environment)),
            node=Node(parts.protocol, blob_store.keep("hermes-node", program)),
        )

    def _own(self, order: BuildRequest, blob_store: BlobStore) -> Blob | None:
        if order.wheel is None:
            return None
        content = read_file(order.wheel)
        pin_of(blob_of(order.wheel.name, content))
        read_agent(order.wheel.name, content)  # before it is kept
        return blob_store.keep(order.wheel.name, content)

    def _agent(self, blob_store: BlobStore, pythons: dict[str, Wheels]) -> Agent:
        wheels = next(iter(pythons.values())).wheels
        wheel = next(blob for blob in wheels if pin_of(blob).name == PACKAGE)
        return read_agent(wheel.name, blob_store.content(wheel))

    def _skills(
        self, order: BuildRequest, pins: tuple[Pin, ...], known: Sequence[Lock], blob_store: BlobStore, scratch: Path
    ) -> Blob:
        if order.source is not None:
            read_file(order.source)
            return blob_store.keep(SKILLS, self.parts.skills(order.source))
        if order.wheel is not None:
            self.tell("the bundled skills are those of an older agent: no source archive was given")
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
        wanted, folder = self.parts.source, scratch / "source"
        if pin is not None:
            wanted = scratch / "source.txt"
            wanted.write_text(pin.to_line(), encoding="utf-8")
        self.tell("fetching the bundled skills")
        self.downloads.source(wanted, folder)
        files = list(folder.iterdir())
        if len(files) != 1:
            raise RefusedError(f"the package index has {len(files)} source archives where one was expected")
        return files[0]


def read_file(file: Path) -> bytes:
    """What an operator named.

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
