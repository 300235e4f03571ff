"""What a store says of its releases: locks with their signatures, who built them, and the revocations."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from hermesops.errors import RefusedError, UsageError
from hermesops.node.errors import NodeError
from hermesops.node.release_handout import Signed
from hermesops.node.release_lock import NAMESPACE, Blob, Lock, canonical
from hermesops.node.revocations import Revocations
from hermesops.release.ports import Signs, Store
from hermesops.release.trust import Trust

LOCKS, BLOBS, BUILDS, REVOCATIONS = "locks", "blobs", "builds", "revocations.json"
LIST = "hermesops release list"
_AGAIN = "put it back from a copy of the store, or hermesops release build --lock FILE"


@dataclass(frozen=True)
class About:
    """Who built a release; nobody signs that.

    Attributes:
        created_at: When it was built first; ``None`` where nobody wrote that down.
        note: Why.
    """

    created_at: datetime | None = None
    who: str = ""
    note: str = ""


@dataclass(frozen=True)
class Documents:
    """Reads and writes them; nothing is believed that is not signed by somebody whose signature counts.

    Attributes:
        store: Where they are.
        trust: Whose signatures count.
        signs: Signs what is written.
    """

    store: Store
    trust: Trust
    signs: Signs

    @cached_property
    def signers(self) -> str:
        """Whose signatures count, in OpenSSH's format, as long as this object lives; empty for nobody's.

        Raises:
            RefusedError: The store's signers are not those that are trusted here.
        """
        return self.trust.current()

    def ids(self) -> tuple[str, ...]:
        """The releases that have a lock, whether it holds or not."""
        files = (name.removeprefix(f"{LOCKS}/") for name in self.store.list(LOCKS))
        return tuple(sorted(name.removesuffix(".json") for name in files if name.endswith(".json")))

    def lock(self, release: str) -> tuple[Lock, Signed]:
        """A release's lock.

        Raises:
            RefusedError: There is none, or it does not hold.
        """
        data, signature = self.store.read(f"{LOCKS}/{release}.json"), self.store.read(f"{LOCKS}/{release}.sig")
        where = f"the lock of {release} in {self.store.url}"
        if data is None:
            raise RefusedError(f"there is no release {release} in {self.store.url}", hint=LIST)
        try:
            lock = Lock.from_json(data)
        except NodeError as error:
            raise RefusedError(f"{where} is damaged: {error}", hint=_AGAIN) from error
        if lock.id != release:
            raise RefusedError(f"{where} is that of {lock.id}: it was changed", hint=_AGAIN)
        signed = Signed(data.decode(), (signature or b"").decode(errors="replace"))
        try:
            self._verify(data, signed.signature)
        except RefusedError as error:
            raise RefusedError(f"release {release} does not hold: {error.message}", hint=_AGAIN) from error
        return lock, signed

    def keep_lock(self, lock: Lock) -> None:
        """Sign a lock and keep it; it is there only with its signature."""
        self.sign_lock(lock)
        self.store.write(f"{LOCKS}/{lock.id}.json", lock.to_json())

    def sign_lock(self, lock: Lock) -> None:
        """Sign a lock that is there, or is about to be."""
        self.store.write(f"{LOCKS}/{lock.id}.sig", self._signature(lock.to_json()).encode())

    def counts(self, lock: Lock, signers: str) -> bool:
        """Whether one of some allowed signers has signed a lock."""
        signature = (self.store.read(f"{LOCKS}/{lock.id}.sig") or b"").decode(errors="replace")
        try:
            self.trust.checks(lock.to_json(), signature, signers=signers, namespace=NAMESPACE)
        except RefusedError:
            return False
        return True

    def about(self, release: str) -> About:
        """Who built a release."""
        try:
            said = json.loads(self.store.read(f"{BUILDS}/{release}.json") or b"{}")
            return About(datetime.fromisoformat(said["created_at"]), str(said["who"]), str(said["note"]))
        except (ValueError, KeyError, TypeError):
            return About()

    def keep_about(self, release: str, *, who: str, note: str, at: datetime) -> None:
        """Write down who built a release, unless somebody did before."""
        if self.store.read(f"{BUILDS}/{release}.json") is None:
            said = {"created_at": at.isoformat(), "who": who, "note": note}
            self.store.write(f"{BUILDS}/{release}.json", canonical(said))

    def revocations(self) -> tuple[Revocations, Signed | None]:
        """Which releases must not run any more.

        Raises:
            RefusedError: They do not hold.
        """
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
            self._verify(signed.text.encode(), signed.signature)
        except RefusedError as error:
            raise RefusedError(
                f"{where} does not hold: {error.message}", hint="hermesops release signers show"
            ) from error
        return revocations, signed

    def keep_revocations(self, revocations: Revocations) -> Revocations:
        """Sign revocations and keep them in place of those before.

        Raises:
            UsageError: They say something that none can say.
            RefusedError: The key at hand does not count.
        """
        data = revocations.to_json()
        try:
            Revocations.from_json(data)
        except NodeError as error:
            raise UsageError(str(error), hint="a version as 0.19.0, and a reason in one line") from error
        signed = Signed(data.decode(), self._signature(data))
        self.store.write(REVOCATIONS, canonical(signed.to_dict()))
        return revocations

    def _verify(self, data: bytes, signature: str) -> None:
        if not self.signers:
            raise RefusedError(f"{self.store.url} names no signers", hint="hermesops release build makes the first")
        self.trust.checks(data, signature, signers=self.signers, namespace=NAMESPACE)

    def _signature(self, data: bytes) -> str:
        signature = self.signs.sign(data, namespace=NAMESPACE)
        self._verify(data, signature)
        return signature


def place(blob: Blob) -> str:
    """What a file of a release is called in a store."""
    return f"{BLOBS}/{blob.sha256}"


def damage_of(blob: Blob, data: bytes | None) -> str:
    """What is wrong with a file's content, as the end of a sentence about it; empty for nothing."""
    if data is None:
        return "is missing"
    if len(data) != blob.size:
        return f"has {len(data)} bytes instead of {blob.size}"
    return "" if hashlib.sha256(data).hexdigest() == blob.sha256 else "is something else than was signed"
