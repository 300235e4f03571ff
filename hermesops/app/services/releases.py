"""Composes releases: where they are kept, and how which there are is changed."""

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, UsageError
from hermesops.model.unknown_name import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hermesops.app.container import Container
    from hermesops.node.release.documents.lock import Lock
    from hermesops.node.release.documents.revocations import Revocations
    from hermesops.release import Releases
    from hermesops.release.builder.build import BuildRequest, Built

_SUBJECT = "releases"


def releases_of(app: "Container") -> "Releases":
    """The releases of an environment; nothing is read."""
    from hermesops.app.services.release_signing import KeyAtHand, trust_of
    from hermesops.engine.embedded.state.storage import open_storage
    from hermesops.release import Releases

    env = app.env
    store = open_storage(env.settings.releases or env.folder / "releases", setting="releases")
    return Releases(store, trust_of(env, store), KeyAtHand(app))


class Releasing:
    """Changes what releases there are, one at a time, and writes down who did.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app
        self._releases = app.releases

    async def build(self, order: "BuildRequest", *, note: str) -> "Built":
        """Have a release of an agent; see ``release.builder.build.Builder``."""
        from hermesops.app.services.release_builds import builder_of

        return await self._built(partial(builder_of(self._app).build, order), note)

    async def rebuild(self, lock: "Lock", given: "Sequence[Path]", *, note: str) -> "Built":
        """Have this very release, whole; see ``release.builder.build.Rebuilder``."""
        from hermesops.app.services.release_builds import builder_of
        from hermesops.release.builder.build import Rebuilder

        return await self._built(partial(Rebuilder(builder_of(self._app), given).build, lock), note)

    def require_known(self, release: str) -> None:
        """Go on when a release was ever known here: a mistyped one would be revoked, and the one that is meant not.

        Raises:
            UsageError: It is in neither the store nor the registry.
        """
        known = sorted({*self._releases.ids(), *self._app.registry.releases.ids()})
        if release not in known:
            raise unknown_name("release", release, known)

    async def revoke(self, release: str, *, reason: str) -> "Revocations":
        """Let no machine take in a release any more."""
        from hermesops.model.release import ReleaseId, release_subject

        registry, named = self._app.registry, ReleaseId(release)
        async with self._app.hold_lease(_SUBJECT):
            revocations = self._releases.revoke(release, reason)
        with suppress(RefusedError):  # it is taken back by its name alone, be it here and whole or not
            self._know(self._releases.read(release))
        try:
            registry.releases.revoke(named, why=reason)
        except UsageError:  # nobody made it known
            registry.audit.append("release_revoked", release_subject(named), why=reason)
        return revocations

    async def set_floor(self, version: str, *, reason: str) -> "Revocations":
        """Let no machine take in an agent older than a version."""
        async with self._app.hold_lease(_SUBJECT):
            before = self._releases.revocations()
            revocations = self._releases.set_floor(version)
        told, after = {"floor": before.floor}, {"floor": version}
        self._app.registry.audit.append("release_floor_set", _SUBJECT, why=reason, before=told, after=after)
        return revocations

    async def set_signers(self, signers: str, *, sign_again: bool, reason: str) -> tuple[str, ...]:
        """Let others sign from now on; see ``release.Releases.replace_signers``."""
        async with self._app.hold_lease(_SUBJECT):
            before = self._releases.trust.current()
            left = self._releases.replace_signers(signers, sign_again=sign_again)
        told, after = {"signers": before}, {"signers": signers}
        self._app.registry.audit.append("release_signers_set", _SUBJECT, why=reason, before=told, after=after)
        return left

    async def restore(self, *, reason: str) -> tuple[str, ...]:
        """Write into the store what this computer remembers of it; see ``release.Releases.restore``."""
        async with self._app.hold_lease(_SUBJECT):
            written = self._releases.restore()
        if written:
            self._app.registry.audit.append("release_trust_restored", _SUBJECT, why=reason, after={"written": written})
        return written

    async def _built(self, build: "Callable[..., Built]", note: str) -> "Built":
        """Have built what is known here from then on; where nothing was ever signed, let the first signers sign."""
        import asyncio

        from hermesops.app.services.release_signing import first_signers

        who = self._app.registry.actor
        async with self._app.hold_lease(_SUBJECT):
            if not self._releases.trust.chain():
                self._releases.replace_signers(first_signers(self._app), sign_again=False)
            built = await asyncio.to_thread(partial(build, who=who, note=note, at=datetime.now(UTC)))
        self._know(built.lock)
        return built

    def _know(self, lock: "Lock") -> None:
        from hermesops.model.release import ReleaseId

        self._app.registry.releases.add(ReleaseId(lock.id), digest=lock.digest, agent_version=lock.agent_version)
