"""The documents of a store of releases: locks with their signatures, records of builds, and the revocations."""

from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.machines.release.trust import RESTORE, REVOCATIONS, Signs, StaleStoreError, Trust
from hermesops.wire import strict_json
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.lock import MAX_LOCK_BYTES, Lock, canonical
from hermesops.wire.documents.revocations import MAX_BYTES, Revocations
from hermesops.wire.documents.signers import Kind
from hermesops.wire.errors import NodeError

if TYPE_CHECKING:  # the engines load for 0.1 s
    from hermesops.infra.engine.embedded.state.storage import Storage

LOCKS, BUILDS = "locks", "builds"
LIST = Hint(("release", "list"))
_MAX_SIGNATURE = 16 * 1024
_MAX_ABOUT = 64 * 1024
_AGAIN = Hint("put it back from a copy of the store, or", ("release", "build", "--lock", "FILE"))


@dataclass(frozen=True)
class About:
    """The record of a release's build; not signed.

    Attributes:
        created_at: When it was first built; ``None`` where that is not recorded.
        note: Why.
    """

    created_at: datetime | None = None
    who: str = ""
    note: str = ""


@dataclass(frozen=True)
class Documents:
    """Reads and writes signed documents; accepts signatures of allowed signers only."""

    store: "Storage"
    trust: Trust
    signs: Signs

    @cached_property
    def signers(self) -> str:
        """The allowed signers in OpenSSH's format, read once; empty for none.

        Raises:
            RefusedError: The store's signers are not those that are trusted here.
        """
        return self.trust.current()

    def ids(self) -> tuple[str, ...]:
        """The releases that have a lock, valid or not."""
        files = (name.removeprefix(f"{LOCKS}/") for name in self.store.list(LOCKS))
        return tuple(sorted(name.removesuffix(".json") for name in files if name.endswith(".json")))

    def lock(self, release: str) -> tuple[Lock, Signed]:
        """A release's lock.

        Raises:
            RefusedError: There is none, or it is not valid.
        """
        data, signature = self.store.read(f"{LOCKS}/{release}.json", at_most=MAX_LOCK_BYTES + 1), self._kept(release)
        where = f"the lock of {release} in {self.store.url}"
        if data is None:
            raise RefusedError(f"there is no release {release} in {self.store.url}", hint=LIST)
        try:
            lock = Lock.from_json(data)
        except NodeError as error:
            raise RefusedError(f"{where} is damaged: {error}", hint=_AGAIN) from error
        if lock.id != release:
            raise RefusedError(f"{where} is that of {lock.id}: it was changed", hint=_AGAIN)
        signed = Signed(data.decode(), signature)
        try:
            self._verify(data, signed.signature, Kind.LOCK)
        except RefusedError as error:
            raise RefusedError(f"release {release} does not hold: {error.message}", hint=_AGAIN) from error
        return lock, signed

    def keep_lock(self, lock: Lock) -> None:
        """Sign a lock and keep it; it is there only with its signature."""
        self.sign_lock(lock)
        self.store.write(f"{LOCKS}/{lock.id}.json", lock.to_json())

    def sign_lock(self, lock: Lock) -> None:
        """Sign a lock that is there, or is about to be."""
        self.store.write(f"{LOCKS}/{lock.id}.sig", self._signature(lock.to_json(), Kind.LOCK).encode())

    def counts(self, lock: Lock, signers: str) -> bool:
        """Whether one of some allowed signers has signed a lock."""
        try:
            self.trust.checks(lock.to_json(), self._kept(lock.id), signers=signers, namespace=Kind.LOCK)
        except RefusedError:
            return False
        return True

    def about(self, release: str) -> About:
        """The author, time and note of a release's build; empty when they cannot be read."""
        try:
            data = self.store.read(f"{BUILDS}/{release}.json", at_most=_MAX_ABOUT + 1)
            document = strict_json.parse_object(data or b"{}", largest=_MAX_ABOUT)
            return About(datetime.fromisoformat(document["created_at"]), str(document["who"]), str(document["note"]))
        except (ValueError, KeyError, TypeError):
            return About()

    def keep_about(self, release: str, *, who: str, note: str, at: datetime) -> None:
        """Record the author, time and note of a release's build, unless they are recorded."""
        if self.store.read(f"{BUILDS}/{release}.json") is None:
            document = {"created_at": at.isoformat(), "who": who, "note": note}
            self.store.write(f"{BUILDS}/{release}.json", canonical(document))

    def revocations(self) -> tuple[Revocations, Signed | None]:
        """Read the revoked releases from the store, and remember them on this computer.

        Raises:
            StaleStoreError: They are older than those that this computer remembers, or missing.
            RefusedError: They are not valid.
        """
        (revocations, signed), (known, _) = self._read_revocations(), self.remembered()
        where = f"the revocations in {self.store.url}"
        if revocations.number < known.number:
            raise StaleStoreError(
                f"{where} are number {revocations.number}, and this computer knows number {known.number}: the store "
                "was restored to an older state, or lost them",
                hint=RESTORE,
            )
        if revocations.number == known.number and revocations != known:
            raise RefusedError(
                f"{where} are others than those of number {known.number} that this computer knows",
                hint=Hint("find out who changed them;", RESTORE, "writes those that this computer knows"),
            )
        if signed is not None and revocations.number > known.number:
            self.trust.memory.write(REVOCATIONS, canonical(asdict(signed)))
        return revocations, signed

    def newest_revocations(self) -> Revocations:
        """The newest that the store or this computer knows; the next ones get the next number.

        Raises:
            RefusedError: Those of the store are not valid.
        """
        try:
            return self.revocations()[0]
        except StaleStoreError:
            return self.remembered()[0]

    def remembered(self) -> tuple[Revocations, Signed | None]:
        """The revocations that this computer knows.

        Raises:
            RefusedError: Its own file is damaged.
        """
        try:
            return _parsed(self.trust.memory.read(REVOCATIONS))
        except (ValueError, NodeError) as error:
            raise RefusedError(
                f"this computer's copy of the revocations is damaged: {error}",
                hint="remove keys/release-revocations once the store holds those of another operator",
            ) from error

    def are_behind(self) -> bool:
        """Whether the store lost, rolled back or damaged the revocations that this computer remembers."""
        try:
            self.revocations()
        except RefusedError:
            return self.remembered()[1] is not None
        return False

    def keep_revocations(self, revocations: Revocations) -> Revocations:
        """Sign revocations and keep them in place of those before.

        Raises:
            UsageError: They have a version or reason that is not allowed.
            RefusedError: The key at hand is not of an allowed signer.
        """
        data = revocations.to_json()
        try:
            Revocations.from_json(data)
        except NodeError as error:
            raise UsageError(str(error), hint="a version as 0.19.0, and a reason in one line") from error
        signed = Signed(data.decode(), self._signature(data, Kind.REVOCATIONS))
        self.store.write(REVOCATIONS, canonical(asdict(signed)))
        self.trust.memory.write(REVOCATIONS, canonical(asdict(signed)))
        return revocations

    def _read_revocations(self) -> tuple[Revocations, Signed | None]:
        where = f"{REVOCATIONS} of {self.store.url}"
        try:
            revocations, signed = _parsed(self.store.read(REVOCATIONS, at_most=2 * MAX_BYTES + 1))
        except (ValueError, NodeError) as error:
            raise RefusedError(
                f"{where} is damaged: {error}", hint=Hint(RESTORE, ", or a copy of the store")
            ) from error
        if signed is not None:
            try:
                self._verify(signed.text.encode(), signed.signature, Kind.REVOCATIONS)
            except RefusedError as error:
                raise RefusedError(
                    f"{where} does not hold: {error.message}", hint=Hint(("release", "signers", "show"), ";", RESTORE)
                ) from error
        return revocations, signed

    def _kept(self, release: str) -> str:
        """The signature of a lock, as the store has it; empty for none."""
        signature = self.store.read(f"{LOCKS}/{release}.sig", at_most=_MAX_SIGNATURE)
        return (signature or b"").decode(errors="replace")

    def _verify(self, data: bytes, signature: str, kind: Kind) -> None:
        if not self.signers:
            raise RefusedError(f"{self.store.url} names no signers", hint=Hint(("release", "build"), "makes the first"))
        self.trust.checks(data, signature, signers=self.signers, namespace=kind)

    def _signature(self, data: bytes, kind: Kind) -> str:
        signature = self.signs.sign(data, namespace=kind)
        self._verify(data, signature, kind)
        return signature


def _parsed(data: bytes | None) -> tuple[Revocations, Signed | None]:
    if data is None:
        return Revocations(), None
    signed = Signed.parse(strict_json.parse(data, largest=2 * MAX_BYTES), REVOCATIONS)
    return Revocations.from_json(signed.text.encode()), signed
