"""Releases: built, revoked, signed again; one change at a time, each in the audit log."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from hermesops.base import assets, blocking
from hermesops.errors import Hint, Parameter, RefusedError, UsageError
from hermesops.machines.image.definition import AgentPins
from hermesops.machines.image.packages import agent_files
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release import OF_IMAGE, Releases
from hermesops.machines.release.builder.build import Builder, BuildRequest, Built
from hermesops.machines.release.builder.parts import Parts, Unit
from hermesops.machines.release.builder.rebuild import Rebuilder
from hermesops.machines.release.builder.sqlite import SqliteBuilder
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.signing import ReleaseKey
from hermesops.model.rollout.release import ReleaseId, release_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.programs.node.build import zipapp
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.wire.documents.lock import Lock
from hermesops.wire.documents.revocations import Revocations

_SUBJECT = "releases"
_ROLE = "hermes_gateway"

_SITE = ("hermes-sandbox.pth", "hermes-changes.pth", "hermes_changes.py")
"""Files of the role that a release has beside its packages."""
_BUILT_S = 3000.0
"""Seconds to fetch all packages; pip and the index have 900 for each file or lock."""


@dataclass(frozen=True)
class BuildPreview:
    """An order for a release that was not given.

    Attributes:
        same_agent: Releases of the store that have the agent's version.
    """

    order: BuildRequest
    same_agent: tuple[str, ...]


@dataclass(frozen=True)
class ReleaseChanges:
    """Changes which releases there are.

    Attributes:
        builder: Builds releases with the parts of an image; without one, of the environment's.
    """

    releases: Releases
    key: ReleaseKey
    builder: Callable[..., Builder]
    registry: Registry
    hold_lease: Callable[[str], LeaseKeeper]

    async def build(self, order: BuildRequest, *, note: str) -> Built:
        """Build a release of an agent; see ``release.builder.build.Builder``."""
        return await self._built(partial(self.builder().build, order), note)

    async def build_for(self, pins: AgentPins) -> ReleaseId:
        """Build the release that an image's machines run at first, of the image's own locks; its id."""
        build = partial(self.builder(pins).build, image_request(pins))
        built = await self._built(build, f"{OF_IMAGE}{pins.image}")
        return ReleaseId(built.lock.id)

    async def rebuild(self, lock: Lock, files: Sequence[Path], pinned: Sequence[PinnedFile], *, note: str) -> Built:
        """Build exactly this release again; see ``release.builder.rebuild.Rebuilder``."""
        return await self._built(partial(Rebuilder(self.builder(), files, pinned).build, lock), note)

    @staticmethod
    def interpreter_of(lock: Lock, text: str) -> PinnedFile | None:
        """The Python of a release, wherever its archive is said to be; ``None`` for no text and for ``none``.

        Raises:
            UsageError: The release brings no Python, or another hash is named.
        """
        if text in {"", "none"}:
            return None
        if lock.interpreter is None:
            raise UsageError(f"release {lock.id} brings no Python", hint=Hint(Parameter("interpreter", "none")))
        return PinnedFile.of_content(text, lock.interpreter.archive.sha256, f"the Python of release {lock.id}")

    def require_known(self, release: str) -> None:
        """Refuse a release that was never known here: a mistyped name would be revoked in place of the release.

        Raises:
            UsageError: It is in neither the store nor the registry.
        """
        known = sorted({*self.releases.ids(), *self.registry.releases.ids()})
        if release not in known:
            raise unknown_name("release", release, known)

    def preview_revocation(self, release: str) -> str:
        """The reason for which a release was revoked already; empty where it was not. Raises as ``require_known``."""
        self.require_known(release)
        return self.releases.revocations().revoked.get(release, "")

    def preview_build(self, order: BuildRequest) -> BuildPreview:
        """An order that was not given; whether it makes a new release is known after its packages are resolved."""
        wanted = order.agent
        same = [row.id for row in self.releases.list() if wanted and row.lock.agent_version == wanted]
        return BuildPreview(order, tuple(same))

    async def revoke(self, release: str, *, reason: str) -> Revocations:
        """Revoke a release: no machine installs it any more."""
        registry, named = self.registry, ReleaseId(release)
        async with self.hold_lease(_SUBJECT):
            revocations = self.releases.revoke(release, reason)
        with suppress(RefusedError):  # it is taken back by its name alone, be it here and whole or not
            self._know(self.releases.read(release))
        try:
            registry.releases.revoke(named, why=reason)
        except UsageError:  # nobody made it known
            registry.audit.append("release_revoked", release_subject(named), why=reason)
        return revocations

    async def set_floor(self, version: str, *, reason: str) -> Revocations:
        """Set the oldest version of the agent that machines install.

        Raises:
            UsageError: No reason is given.
        """
        if not reason:
            raise UsageError("a floor is set for a reason", hint=Hint(Parameter("reason", "WHY")))
        async with self.hold_lease(_SUBJECT):
            before = self.releases.revocations()
            revocations = self.releases.set_floor(version)
        floor_before, after = {"floor": before.floor}, {"floor": version}
        self.registry.audit.append("release_floor_set", _SUBJECT, why=reason, before=floor_before, after=after)
        return revocations

    async def set_signers(self, signers: str, *, sign_again: bool, reason: str) -> tuple[str, ...]:
        """Change the signers of releases; see ``release.Releases.replace_signers``."""
        async with self.hold_lease(_SUBJECT):
            before = self.releases.trust.current()
            left = self.releases.replace_signers(signers, sign_again=sign_again)
        signers_before, after = {"signers": before}, {"signers": signers}
        self.registry.audit.append("release_signers_set", _SUBJECT, why=reason, before=signers_before, after=after)
        return left

    async def restore(self, *, reason: str) -> tuple[str, ...]:
        """Write this computer's remembered documents into the store; see ``release.Releases.restore``."""
        async with self.hold_lease(_SUBJECT):
            written = self.releases.restore()
        if written:
            self.registry.audit.append("release_trust_restored", _SUBJECT, why=reason, after={"written": written})
        return written

    async def _built(self, build: Callable[..., Built], note: str) -> Built:
        """Build a release and add it to the registry; the first one of a store sets its signers."""
        who = self.registry.actor
        async with self.hold_lease(_SUBJECT):
            if not self.releases.trust.chain():
                self.releases.replace_signers(self.key.first_signers(), sign_again=False)
            work = partial(build, who=who, note=note, at=datetime.now(UTC))
            built = await blocking.call(work, whom="the package index", within_s=_BUILT_S)
        self._know(built.lock)
        return built

    def _know(self, lock: Lock) -> None:
        self.registry.releases.add(ReleaseId(lock.id), digest=lock.digest, agent_version=lock.agent_version)


def parts_of(pins: AgentPins, downloads: Pip, sqlite: SqliteBuilder) -> Parts:
    """Parts of every release beside the agent: the image's pins, the roles' files, this hermes-node."""
    gateway = assets.folder("roles") / _ROLE
    unit = Unit(
        (gateway / "templates" / "hermes-gateway.service.j2").read_text(),
        yaml.safe_load((gateway / "defaults" / "main.yml").read_text()),
    )
    return Parts(
        extras=f"[{','.join(sorted(Requirement(pins.wanted).extras))}]",
        site={name: (gateway / "files" / name).read_bytes() for name in _SITE},
        unit=unit,
        program=zipapp,
        uv=partial(agent_files.uv_of, pins, downloads=downloads),
        skills=agent_files.skills_of,
        source=pins.sdist,
        sqlite=sqlite,
    )


def usual_request(pins: AgentPins) -> BuildRequest:
    """The agent and the Pythons that an image is made for."""
    version = next(iter(Requirement(pins.wanted).specifier)).version
    return BuildRequest(agent=version, pythons=tuple(sorted(pins.locks)))


def image_request(pins: AgentPins) -> BuildRequest:
    """The release that an image's machines run at first: of the image's own locks, so the same wherever it is built."""
    locked = {python: lock.read_text(encoding="utf-8") for python, lock in pins.locks.items()}
    return replace(usual_request(pins), pinned=locked)
