"""The releases in a store: listed, verified, handed out to machines, revoked."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.machines.capabilities import refuse_unknown
from hermesops.machines.release.blobs import damage_of, place, read_blob
from hermesops.machines.release.index import LIST, About, Documents
from hermesops.machines.release.trust import Signs, Trust
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.unknown_name import unknown_name
from hermesops.wire.documents.handout import Handout
from hermesops.wire.documents.lock import Blob, Lock, release_id
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.errors import NodeError

if TYPE_CHECKING:  # the engines load for 0.1 s
    from hermesops.infra.engine.embedded.state.storage import Storage

_LINK_S = 6 * 3600


OF_IMAGE = "of image "
"""The beginning of the note of a release that an image brought."""


@dataclass(frozen=True)
class Kept:
    """A release of a store, seen from outside.

    Attributes:
        revoked: Why it must not run any more, as the end of a sentence; empty when it may.
    """

    lock: Lock
    about: About
    revoked: str

    @property
    def id(self) -> str:
        """Id of the release, from its lock."""
        return self.lock.id


@dataclass(frozen=True)
class Damage:
    """A damaged file of a release."""

    name: str
    what: str


@dataclass(frozen=True)
class Releases:
    """All releases of an environment in a store: keeps, lists, verifies and revokes releases."""

    store: "Storage"
    trust: Trust
    signs: Signs

    @property
    def _documents(self) -> Documents:
        return Documents(self.store, self.trust, self.signs)

    def list(self) -> tuple[Kept, ...]:
        """All valid releases, newest first; ``verify`` explains the others.

        Raises:
            RefusedError: The store's signers or revocations are not valid.
        """
        documents, releases = self._documents, []
        revocations = documents.revocations()[0] if documents.signers else Revocations()
        for release in documents.ids():
            with suppress(RefusedError):
                lock, _ = documents.lock(release)
                releases.append(Kept(lock, documents.about(release), revocations.why_not(lock)))
        return tuple(sorted(releases, key=_age, reverse=True))

    def ids(self) -> frozenset[str]:
        """Ids of all releases in the store, valid or not."""
        return frozenset(self._documents.ids())

    def find(self, text: str) -> Lock:
        """The release that a text names.

        That is its id, its beginning with some of the hash, or the agent's version where one release of it may run. A
        version means an operator's release rather than that of an image.

        Raises:
            UsageError: There is none, or more than one.
            RefusedError: Its lock does not hold.
        """
        documents = self._documents
        with suppress(NodeError):
            name = release_id(text)
            if name not in documents.ids():
                raise unknown_name("release", text, documents.ids())
            return self.read(name)
        meant = [release for release in self.list() if _is_meant(release, text)]
        meant = [release for release in meant if not release.about.note.startswith(OF_IMAGE)] or meant
        if len(meant) == 1:
            return meant[0].lock
        if meant:
            ids = ", ".join(release.id for release in meant)
            raise UsageError(f"more than one release is called {text}: {ids}", hint=LIST)
        raise unknown_name("release", text, documents.ids())

    def find_usable(self, text: str) -> Lock:
        """The release that a text names, if machines may run it; raises as ``find`` and ``refuse_revoked``."""
        lock = self.find(text)
        self.refuse_revoked(lock)
        return lock

    def read(self, release: str) -> Lock:
        """The lock of a release, its signature checked.

        Raises:
            RefusedError: There is none, or it does not hold.
        """
        return self._documents.lock(release)[0]

    def revocations(self) -> Revocations:
        """Read the revoked releases, with their signature checked.

        Raises:
            RefusedError: They do not hold.
        """
        return self._documents.revocations()[0]

    def refuse_revoked(self, lock: Lock) -> None:
        """Refuse a release that must not run on instances.

        Raises:
            RefusedError: It was revoked, its agent is below the floor, or that agent's capabilities are unknown.
        """
        refuse_unknown(lock)
        _refuse_revoked(lock, self.revocations())

    def handout(self, release: str, python: str) -> Handout:
        """The handout of a release for a machine with this Python.

        Raises:
            RefusedError: There is none, its signature is not valid, it was revoked, or it is not for that Python.
        """
        documents = self._documents
        lock, signed = documents.lock(release)
        refuse_unknown(lock)
        revocations, taken_back = documents.revocations()
        _refuse_revoked(lock, revocations)
        links = {blob.sha256: self.store.link(place(blob), life_s=_LINK_S) for blob in self.blobs(lock, python)}
        return Handout(signed, self.trust.chain(), taken_back, {sha256: url for sha256, url in links.items() if url})

    def blobs(self, lock: Lock, python: str) -> tuple[Blob, ...]:
        """Every file of a release that a machine with this Python needs.

        Raises:
            RefusedError: It is for no such Python.
        """
        try:
            return lock.blobs(python)
        except NodeError as error:
            raise RefusedError(str(error), hint=Hint(("release", "build", "--python", "VERSION"))) from error

    def blob(self, blob: Blob) -> bytes:
        """A file of a release, checked against its hash.

        Raises:
            RefusedError: It is missing or damaged.
        """
        data = read_blob(self.store, blob)
        if what := damage_of(blob, data):
            raise RefusedError(f"{blob.name} in {self.store.url} {what}", hint=Hint(("release", "verify", "ID")))
        assert data is not None  # noqa: S101 - what is missing is damaged
        return data

    def verify(self, release: str) -> tuple[Damage, ...]:
        """Compare all files of a release with its lock; reads only the store. Empty when nothing is damaged.

        Raises:
            RefusedError: Its lock does not hold, so there is nothing to compare with.
        """
        lock = self.read(release)
        damages = ((blob.name, damage_of(blob, read_blob(self.store, blob))) for blob in lock.all_blobs())
        return tuple(Damage(name, what) for name, what in damages if what)

    def revoke(self, release: str, why: str) -> Revocations:
        """Revoke a release, so that no machine installs it; it need not be in the store.

        Raises:
            UsageError: It is not the id of a release, or there is no reason.
            RefusedError: The key at hand may not sign.
        """
        try:
            name = release_id(release)
        except NodeError as error:
            raise UsageError(f"{release} is not the id of a release", hint=LIST) from error
        return self._documents.keep_revocations(self._documents.newest_revocations().with_revoked(name, why))

    def set_floor(self, version: str) -> Revocations:
        """Let no machine install an agent older than a version; empty removes that floor.

        Raises:
            UsageError: It is no version.
            RefusedError: The key at hand may not sign.
        """
        return self._documents.keep_revocations(self._documents.newest_revocations().with_floor(version))

    def replace_signers(self, signers: str, *, sign_again: bool) -> tuple[str, ...]:
        """Change the allowed signers; the key at hand has to be one of them before and after.

        Signers are in OpenSSH's format. ``sign_again`` signs releases of removed signers again, with the key at hand.

        Returns:
            Releases that no remaining signer has signed: machines refuse them from now on.

        Raises:
            RefusedError: The key at hand is not of an allowed signer, or something in the store is not valid.
        """
        documents = self._documents
        signed = self.trust.refuse_lockout(signers, self.signs)
        locks = [documents.lock(release)[0] for release in documents.ids()]
        left = [lock for lock in locks if not documents.counts(lock, signers)]
        revocations, were_there = documents.revocations()
        # Sign everything before the signers change: the key is allowed before and after.
        if were_there:
            documents.keep_revocations(revocations)
        for lock in left if sign_again else ():
            documents.sign_lock(lock)
        self.trust.replace(signed)
        return () if sign_again else tuple(lock.id for lock in left)

    def restore(self) -> tuple[str, ...]:
        """Write to the store the documents that this computer remembers and that the store lost or damaged.

        Returns:
            What was written; nothing where the store has all of it.

        Raises:
            RefusedError: The key at hand may not sign the revocations again.
        """
        written = []
        if self.trust.is_behind():
            self.trust.restore()
            written.append("signers")
        if self._documents.are_behind():
            self._documents.keep_revocations(self._documents.remembered()[0])
            written.append("revocations")
        return tuple(written)

    def holds(self, lock: Lock) -> bool:
        """Whether a release is there, signed by an allowed signer."""
        try:
            return self.read(lock.id) == lock
        except RefusedError:
            return False

    def put(self, lock: Lock, *, who: str, note: str, at: datetime) -> None:
        """Sign a release and keep its lock; its files are there already.

        Raises:
            RefusedError: The agent's capabilities are unknown, the key at hand may not sign, or the store is not
                trusted.
        """
        refuse_unknown(lock)
        documents = self._documents
        if not self.trust.chain():
            raise RefusedError(
                f"{self.store.url} names no signers yet",
                hint=Hint(("release", "signers", "set", "FILE", "--reason", "WHY")),
            )
        documents.keep_about(lock.id, who=who, note=note, at=at)
        documents.keep_lock(lock)


def _refuse_revoked(lock: Lock, revocations: Revocations) -> None:
    if why := revocations.why_not(lock):
        raise RefusedError(f"release {lock.id} {why}", hint=LIST)


def _is_meant(release: Kept, text: str) -> bool:
    if "-" in text:
        return release.id.startswith(text)
    return release.lock.agent_version == text and not release.revoked


def _age(release: Kept) -> tuple[float, str]:
    at = release.about.created_at
    return at.timestamp() if at else 0.0, release.id


@dataclass(frozen=True)
class HandedOut:
    """One release as machines get it."""

    id: ReleaseId
    releases: Releases

    def handout(self, python: str) -> bytes:
        """The handout for a machine with that Python."""
        return self.releases.handout(self.id, python).to_json()

    def blob(self, sha256: str) -> bytes:
        """Read one file of the release by its hash."""
        return self.releases.blob(self._blobs[sha256])

    @cached_property
    def _blobs(self) -> dict[str, Blob]:
        return {blob.sha256: blob for blob in self.releases.read(self.id).all_blobs()}
