"""The releases in a store: found, checked, handed out and taken back."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import RefusedError, UsageError
from hermesops.node.errors import NodeError
from hermesops.node.release_handout import Handout, Signed
from hermesops.node.release_lock import NAMESPACE, Blob, Lock, canonical, release_id
from hermesops.node.revocations import Revocations
from hermesops.release.ports import Signs, Store
from hermesops.release.trust import Trust

LOCKS, BLOBS, BUILDS, REVOCATIONS = "locks", "blobs", "builds", "revocations.json"
_LINK_S = 6 * 3600
_LIST = "hermesops release list"
_AGAIN = "put it back from a copy of the store, or hermesops release build --lock FILE"


@dataclass(frozen=True)
class Kept:
    """A release of a store, seen from outside.

    Attributes:
        created_at: When it was built first; ``None`` where nobody wrote that down.
        who: Who built it; ``note`` why. Neither is signed.
        revoked: Why it must not run any more; empty when it may.
    """

    lock: Lock
    created_at: datetime | None
    who: str
    note: str
    revoked: str

    @property
    def id(self) -> str:
        """What it is called."""
        return self.lock.id


@dataclass(frozen=True)
class Damage:
    """What is wrong with a file of a release."""

    name: str
    what: str


@dataclass(frozen=True)
class Releases:
    """The releases of an environment.

    Attributes:
        store: Where they are.
        trust: Whose signatures count.
        signs: Signs what is changed here.
    """

    store: Store
    trust: Trust
    signs: Signs

    def list(self) -> tuple[Kept, ...]:
        """All of them, newest first; a lock that does not hold is left out, ``verify`` says why.

        Raises:
            RefusedError: The store's revocations do not hold.
        """
        revocations = self.revocations()
        kept = (self._kept(release, revocations) for release in self._ids())
        return tuple(sorted(filter(None, kept), key=_age, reverse=True))

    def find(self, text: str) -> Lock:
        """The release that somebody means: its id, or the agent's version where one release of it may run.

        Raises:
            RefusedError: There is none, more than one, or its lock does not hold.
        """
        try:
            return self.read(release_id(text))
        except NodeError:
            meant = [one for one in self.list() if one.lock.agent_version == text and not one.revoked]
        if len(meant) == 1:
            return meant[0].lock
        if meant:
            ids = ", ".join(one.id for one in meant)
            raise RefusedError(f"more than one release has agent {text}: {ids}", hint="name the release by its id")
        raise RefusedError(f"there is no release {text} in {self.store.url}", hint=_LIST)

    def read(self, release: str) -> Lock:
        """The lock of a release, its signature checked.

        Raises:
            RefusedError: There is none, or it does not hold.
        """
        return self._opened(release)[0]

    def revocations(self) -> Revocations:
        """Which releases must not run any more, their signature checked.

        Raises:
            RefusedError: They do not hold.
        """
        return self._revocations()[0]

    def refuse_revoked(self, lock: Lock) -> None:
        """Go on when a release may be brought to instances.

        Raises:
            RefusedError: It was revoked, or its agent is below the floor.
        """
        if why := self.revocations().why_not(lock):
            raise RefusedError(f"release {lock.id} {why}", hint=_LIST)

    def handout(self, release: str, python: str) -> Handout:
        """What a machine with this Python is handed of a release.

        Raises:
            RefusedError: There is none, it does not hold, was revoked, or is for no such Python.
        """
        lock, signed = self._opened(release)
        self.refuse_revoked(lock)
        blobs = self.blobs(lock, python)
        links = {blob.sha256: self.store.link(place(blob), life_s=_LINK_S) for blob in blobs}
        return Handout(
            signed, self.trust.chain(), self._revocations()[1], {sha256: url for sha256, url in links.items() if url}
        )

    def blobs(self, lock: Lock, python: str) -> tuple[Blob, ...]:
        """Every file of a release that a machine with this Python needs.

        Raises:
            RefusedError: It is for no such Python.
        """
        try:
            return lock.blobs(python)
        except NodeError as error:
            raise RefusedError(str(error), hint="hermesops release build --python …") from error

    def blob(self, blob: Blob) -> bytes:
        """A file of a release, checked against its hash.

        Raises:
            RefusedError: It is missing or damaged.
        """
        data = self.store.read(place(blob))
        if what := _damage(blob, data):
            raise RefusedError(f"{blob.name} in {self.store.url} {what}", hint="hermesops release verify ID")
        assert data is not None  # noqa: S101 - what is missing is damaged
        return data

    def verify(self, release: str) -> tuple[Damage, ...]:
        """What is wrong with a release's files; nothing is good news. Asks nobody but the store.

        Raises:
            RefusedError: Its lock does not hold, so there is nothing to compare with.
        """
        lock = self.read(release)
        found = ((blob.name, _damage(blob, self.store.read(place(blob)))) for blob in lock.all_blobs())
        return tuple(Damage(name, what) for name, what in found if what)

    def revoke(self, release: str, why: str) -> Revocations:
        """Let no machine take in a release any more; it need not be in the store.

        Raises:
            UsageError: It can be no release's id, or there is no reason.
            RefusedError: The key at hand may not sign.
        """
        try:
            name = release_id(release)
        except NodeError as error:
            raise UsageError(f"{release} is not the id of a release", hint=_LIST) from error
        return self._keep(self.revocations().with_revoked(name, why))

    def set_floor(self, version: str) -> Revocations:
        """Let no machine take in an agent older than a version; empty for no such floor.

        Raises:
            UsageError: It is no version.
            RefusedError: The key at hand may not sign.
        """
        return self._keep(self.revocations().with_floor(version))

    def replace_signers(self, signers: str, *, sign_again: bool) -> tuple[str, ...]:
        """Let others sign from now on; see ``Trust.replace``.

        Args:
            signers: Who, in OpenSSH's format.
            sign_again: Vouch with the key at hand for releases that were signed by somebody who signs no more.

        Returns:
            Releases that no remaining signer vouches for: machines refuse them from now on.
        """
        locks = [(release, self._opened(release)[0]) for release in self._ids()]
        revocations, signed = self._revocations()
        self.trust.replace(signers, self.signs)
        if signed is not None:
            self._keep(revocations)
        left = [lock for release, lock in locks if not self._counts(release, lock)]
        if not sign_again:
            return tuple(lock.id for lock in left)
        for lock in left:
            self._sign(lock)
        return ()

    def put(self, lock: Lock, *, who: str, note: str, at: datetime) -> None:
        """Sign a release and keep its lock; its files are there already.

        Raises:
            RefusedError: The key at hand may not sign, or the store is not trusted.
        """
        if not self.trust.chain():
            raise RefusedError(f"{self.store.url} names no signers yet", hint="hermesops release signers set FILE")
        built = f"{BUILDS}/{lock.id}.json"
        if self.store.read(built) is None:
            about = {"created_at": at.isoformat(), "who": who, "note": note}
            self.store.write(built, json.dumps(about, sort_keys=True).encode() + b"\n")
        self._sign(lock)
        self.store.write(f"{LOCKS}/{lock.id}.json", lock.to_json())

    def _sign(self, lock: Lock) -> None:
        signature = self.signs.sign(lock.to_json(), namespace=NAMESPACE)
        self.trust.verify(lock.to_json(), signature)
        self.store.write(f"{LOCKS}/{lock.id}.sig", signature.encode())

    def _ids(self) -> tuple[str, ...]:
        files = (name.removeprefix(f"{LOCKS}/") for name in self.store.list(LOCKS))
        return tuple(sorted(name.removesuffix(".json") for name in files if name.endswith(".json")))

    def _counts(self, release: str, lock: Lock) -> bool:
        signature = (self.store.read(f"{LOCKS}/{release}.sig") or b"").decode(errors="replace")
        try:
            self.trust.verify(lock.to_json(), signature)
        except RefusedError:
            return False
        return True

    def _opened(self, release: str) -> tuple[Lock, Signed]:
        data, signature = self.store.read(f"{LOCKS}/{release}.json"), self.store.read(f"{LOCKS}/{release}.sig")
        if data is None:
            raise RefusedError(f"there is no release {release} in {self.store.url}", hint=_LIST)
        try:
            lock = Lock.from_json(data)
        except NodeError as error:
            raise RefusedError(f"the lock of {release} in {self.store.url} is damaged: {error}", hint=_AGAIN) from error
        if lock.id != release:
            raise RefusedError(f"the lock of {release} in {self.store.url} is that of {lock.id}", hint=_AGAIN)
        signed = Signed(data.decode(), (signature or b"").decode(errors="replace"))
        try:
            self.trust.verify(data, signed.signature)
        except RefusedError as error:
            raise RefusedError(f"release {release} does not hold: {error.message}", hint=_AGAIN) from error
        return lock, signed

    def _kept(self, release: str, revocations: Revocations) -> Kept | None:
        try:
            lock = self.read(release)
        except RefusedError:
            return None
        try:
            about = json.loads(self.store.read(f"{BUILDS}/{release}.json") or b"{}")
            at = datetime.fromisoformat(about["created_at"])
        except (ValueError, KeyError, TypeError):
            about, at = {}, None
        return Kept(lock, at, str(about.get("who", "")), str(about.get("note", "")), revocations.why_not(lock))

    def _revocations(self) -> tuple[Revocations, Signed | None]:
        kept = self.store.read(REVOCATIONS)
        if kept is None:
            return Revocations(), None
        where = f"{REVOCATIONS} of {self.store.url}"
        try:
            signed = Signed.parse(json.loads(kept), REVOCATIONS)
            revocations = Revocations.from_json(signed.text.encode())
        except (ValueError, NodeError) as error:
            raise RefusedError(f"{where} is damaged: {error}", hint="put it back from a copy of the store") from error
        try:
            self.trust.verify(signed.text.encode(), signed.signature)
        except RefusedError as error:
            raise RefusedError(
                f"{where} does not hold: {error.message}", hint="hermesops release signers show"
            ) from error
        return revocations, signed

    def _keep(self, revocations: Revocations) -> Revocations:
        data = revocations.to_json()
        signature = self.signs.sign(data, namespace=NAMESPACE)
        self.trust.verify(data, signature)
        self.store.write(REVOCATIONS, canonical(Signed(data.decode(), signature).to_dict()))
        return revocations


def place(blob: Blob) -> str:
    """What a file of a release is called in a store."""
    return f"{BLOBS}/{blob.sha256}"


def _damage(blob: Blob, data: bytes | None) -> str:
    if data is None:
        return "is missing"
    if len(data) != blob.size:
        return f"has {len(data)} bytes instead of {blob.size}"
    return "" if hashlib.sha256(data).hexdigest() == blob.sha256 else "is something else than was signed"


def _age(kept: Kept) -> tuple[float, str]:
    return kept.created_at.timestamp() if kept.created_at else 0.0, kept.id
