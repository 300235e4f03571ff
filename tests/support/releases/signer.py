"""Somebody who signs releases with a real key of their own."""

from pathlib import Path

from hermesops.access.identity.signatures import Signers, check, fresh_key
from hermesops.infra.engine.embedded.state.storage import open_storage
from hermesops.machines.release import Releases
from hermesops.machines.release.trust import StoreMemory, Trust
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.signers import NAMESPACES, AllowedSigners, Kind


class Operator:
    """Somebody with a key of their own.

    Args:
        folder: Takes the key.
        name: Of them.
    """

    def __init__(self, folder: Path, name: str) -> None:
        key = folder / f"{name}.key"
        key.write_text(fresh_key())
        key.chmod(0o600)
        self.signers = Signers(key)
        self.line = f'{name}@example.net namespaces="{NAMESPACES}" {self.signers.public()}\n'

    def signed(self, text: str, kind: Kind = Kind.LOCK) -> Signed:
        """A text of a kind with their signature."""
        return Signed(text, self.signers.sign(text.encode(), namespace=kind))

    def first_signers(self) -> Signed:
        """The first file of a chain of signers: they alone, signed by them."""
        return self.signed(AllowedSigners(1, self.line).to_json().decode(), Kind.SIGNERS)

    def releases(self, where: str, memory: StoreMemory | None = None) -> Releases:
        """The releases of a place, as their computer sees them: for the first time, unless it remembers something."""
        store = open_storage(where, setting="releases")
        return Releases(store, Trust(store, check, memory or Remembered()), self.signers)


class Remembered(StoreMemory):
    """What a computer remembers of a store, in a dictionary."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.held.get(name)

    def write(self, name: str, content: bytes) -> None:
        self.held[name] = content
