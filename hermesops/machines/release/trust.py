"""The allowed signers of releases: a chain of files, each signed by a signer of the one before.

The rule is the machines' own (``programs.node.release.fetch``): whoever knows one file of the chain goes on from there
and accepts no lower number. This computer remembers what a store lost or rolled back.
"""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from hermesops.base.files.private_file import replace_secret
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.wire import strict_json
from hermesops.wire.documents.handout import Signed, read_chain
from hermesops.wire.documents.lock import canonical
from hermesops.wire.documents.signers import (
    MAX_CHAIN,
    MAX_LINES,
    OF_RELEASES,
    AllowedSigners,
    Kind,
    checked_lines,
)
from hermesops.wire.errors import NodeError
from hermesops.wire.strict_json import listed

if TYPE_CHECKING:  # the engines load for 0.1 s
    from hermesops.infra.engine.embedded.state.storage import Storage

NAME, REVOCATIONS = "signers.json", "revocations.json"
LARGEST = 8 << 20
"""Bytes of a store's file of signers: far more than a handout has room for."""

RESTORE = Hint(("release", "signers", "restore", "--reason", "WHY"))
_WHO = Hint("find out who changed them;", ("release", "signers", "show"))


class Signs(Protocol):
    """Signs bytes with a release key; implemented in ``identity.signatures``."""

    def sign(self, data: bytes, *, namespace: str) -> str:
        """The armored signature of some bytes."""


class Checks(Protocol):
    """Checks signatures against allowed signers that are given as text."""

    def __call__(self, data: bytes, signature: str, *, signers: str, namespace: str) -> str:
        """The identity that the allowed signers give to the key.

        Raises:
            RefusedError: It is malformed, of other data, or not by one of them.
        """


class StaleStoreError(RefusedError):
    """A store has less than before: it was restored to an older state, or lost something."""


@dataclass(frozen=True)
class Chain:
    """All files of allowed signers there ever were, oldest first."""

    signed: tuple[Signed, ...] = ()

    @cached_property
    def documents(self) -> tuple[AllowedSigners, ...]:
        """Parsed lists of allowed signers, the oldest first."""
        return read_chain(self.signed)

    @property
    def lines(self) -> str:
        """The current allowed signers in OpenSSH's format; empty for none."""
        return self.documents[-1].lines if self.signed else ""

    def begins_with(self, other: "Chain") -> bool:
        """Whether another chain is its beginning, or all of it."""
        return self.documents[: len(other.signed)] == other.documents

    def to_json(self) -> bytes:
        """Serialise the chain as canonical JSON for a store."""
        return canonical([asdict(signed) for signed in self.signed])

    @classmethod
    def from_json(cls, data: bytes) -> "Chain":
        """Parse a chain; no signature is checked.

        Raises:
            MalformedJSONError, BadRequestError: It is none.
        """
        links = listed(strict_json.parse(data, largest=LARGEST), NAME)
        if len(links) > MAX_CHAIN:
            raise strict_json.MalformedJSONError(f"more than {MAX_CHAIN} changes of signers")
        chain = cls(tuple(Signed.parse(link, f"{NAME}[{number}]") for number, link in enumerate(links)))
        read_chain(chain.signed)
        return chain


class StoreMemory:
    """Documents of a store that this computer remembers, in a folder of keys, to detect an older store."""

    _FILES: ClassVar = {NAME: "release-signers", REVOCATIONS: "release-revocations"}

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        """The remembered text of a file of the store; ``None`` if there is none."""
        try:
            return (self._folder / self._FILES[name]).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Remember a file of the store."""
        replace_secret(self._folder / self._FILES[name], content.decode())


@dataclass(frozen=True)
class Trust:
    """The signers of a store's releases.

    Attributes:
        vouchers: Allowed signers that the environment names, for where this computer remembers nothing; where it names
            none, the first file of the chain is believed …
        needs_vouchers: … unless signers have to be named.
    """

    store: "Storage"
    checks: Checks
    memory: StoreMemory
    vouchers: str = ""
    needs_vouchers: bool = field(default=False, kw_only=True)

    def chain(self) -> tuple[Signed, ...]:
        """All files of allowed signers, oldest first; empty where nothing was ever signed.

        Raises:
            RefusedError: It is damaged, rolled back, or does not continue the chain that this computer remembers.
        """
        return self._followed().signed

    def current(self) -> str:
        """The current allowed signers in OpenSSH's format; empty where nothing was ever signed."""
        return self._followed().lines

    def remembered(self) -> Chain:
        """The chain that this computer remembers; empty if there is none.

        Raises:
            RefusedError: Its own file is damaged.
        """
        data = self.memory.read(NAME)
        try:
            return Chain.from_json(data) if data else Chain()
        except (ValueError, NodeError) as error:
            raise RefusedError(
                f"this computer's copy of the release signers is damaged: {error}",
                hint=Hint(
                    "compare", ("release", "signers", "show"), "of another operator; then remove keys/release-signers"
                ),
            ) from error

    def is_behind(self) -> bool:
        """Whether the store lost, rolled back or damaged the signers that this computer remembers."""
        known = self.remembered()
        if not known.signed:
            return False
        try:
            return not self._read().begins_with(known)
        except RefusedError:
            return True

    def restore(self) -> None:
        """Replace the chain in the store with the chain that this computer remembers."""
        self.store.write(NAME, self.remembered().to_json())

    def refuse_lockout(self, signers: str, signs: Signs) -> Signed:
        """Require that the key at hand is of an allowed signer before and after the change: else nobody could undo it.

        Returns:
            Those signers, signed.

        Raises:
            UsageError: They cannot be read as signers.
            RefusedError: It does not.
        """
        chain = self._followed()
        try:
            data = AllowedSigners(len(chain.signed) + 1, checked_lines(signers)).to_json()
        except NodeError as error:
            raise UsageError(str(error), hint=f"at most {MAX_LINES} lines in OpenSSH's format") from error
        signatures = {kind: signs.sign(data, namespace=kind) for kind in OF_RELEASES}
        for counted, when in ((chain.lines or signers, "now"), (signers, "afterwards")):
            for kind, signature in signatures.items():
                self._refuse_uncounted(data, signature, counted, kind, when)
        return Signed(data.decode(), signatures[Kind.SIGNERS])

    def replace(self, signed: Signed) -> None:
        """Change the allowed signers; see ``refuse_lockout``."""
        chain, signers = self._followed(), AllowedSigners.from_json(signed.text.encode())
        if chain.lines != signers.lines:
            changed = Chain((*chain.signed, signed))
            self.store.write(NAME, changed.to_json())
            self.memory.write(NAME, changed.to_json())

    def _refuse_uncounted(self, data: bytes, signature: str, signers: str, kind: Kind, when: str) -> None:
        try:
            self.checks(data, signature, signers=signers, namespace=kind)
        except RefusedError as error:
            raise RefusedError(
                f"this key signs no releases {when} ({kind}): {error.message}",
                hint="first let both keys sign, then change to the new one, and only then leave the old one out",
            ) from error

    def _followed(self) -> Chain:
        """The store's chain, if it continues the one that this computer remembers; it is remembered in turn."""
        known, chain = self.remembered(), self._read()
        if self.needs_vouchers and not self.vouchers and not known.signed:
            raise RefusedError(
                "no release signers are trusted: allowed_signers is not set",
                hint='HERMESOPS_ALLOWED_SIGNERS names a file of lines `identity namespaces="…" ssh-ed25519 …`',
            )
        if known.signed:
            self._refuse_stale(chain, known)
        if chain.signed:
            self._verify(chain, known)
            if chain.documents != known.documents:
                self.memory.write(NAME, chain.to_json())
        return chain

    def _read(self) -> Chain:
        data = self.store.read(NAME, at_most=LARGEST + 1)
        try:
            return Chain.from_json(data) if data is not None else Chain()
        except (ValueError, NodeError) as error:
            raise RefusedError(
                f"{NAME} of {self.store.url} is damaged: {error}", hint=Hint(RESTORE, ", or a copy of the store")
            ) from error

    def _refuse_stale(self, chain: Chain, known: Chain) -> None:
        if known.begins_with(chain) and len(chain.signed) < len(known.signed):
            raise StaleStoreError(
                f"the signers in {self.store.url} are number {len(chain.signed)}, and this computer knows number "
                f"{len(known.signed)}: the store was restored to an older state, or lost them",
                hint=RESTORE,
            )
        if not chain.begins_with(known):
            raise RefusedError(
                f"the signers in {self.store.url} do not follow those that this computer knows",
                hint=Hint(_WHO, ";", RESTORE, "writes those that this computer knows"),
            )

    def _verify(self, chain: Chain, known: Chain) -> None:
        start = len(known.signed) - 1 if known.signed else self._start(chain)
        links = list(zip(chain.signed, chain.documents, strict=True))
        for (_, before), (signed, signers) in zip(links[start:], links[start + 1 :], strict=False):
            if not self._is_by(signed, before.lines):
                raise RefusedError(
                    f"signers {signers.number} of {self.store.url} are not signed by one of those before them",
                    hint=_WHO,
                )

    def _start(self, chain: Chain) -> int:
        """Index of the first trusted document of the chain: one that a voucher or its own signers signed."""
        links = zip(chain.signed, chain.documents, strict=True)
        numbers = (
            number
            for number, (signed, signers) in enumerate(links)
            if self._is_by(signed, self.vouchers or signers.lines)
        )
        start = next(numbers, None)
        if start is None:
            raise RefusedError(
                f"the signers in {self.store.url} are not signed by an allowed signer of this environment", hint=_WHO
            )
        return start

    def _is_by(self, signed: Signed, signers: str) -> bool:
        try:
            self.checks(signed.text.encode(), signed.signature, signers=signers, namespace=Kind.SIGNERS)
        except RefusedError:
            return False
        return True
