"""Somebody who signs releases with a real key of their own."""

from pathlib import Path

from hermesops.access.release_key import fresh_key
from hermesops.access.signature import Signers, check
from hermesops.engine.embedded.place import open_place
from hermesops.node.release_handout import Signed
from hermesops.node.release_lock import NAMESPACE
from hermesops.release import Releases
from hermesops.release.trust import Trust


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
        self.line = f'{name}@example.net namespaces="{NAMESPACE}" {self.signers.public()}\n'

    def signed(self, text: str) -> Signed:
        """A text with their signature."""
        return Signed(text, self.signers.sign(text.encode(), namespace=NAMESPACE))

    def releases(self, where: str) -> Releases:
        """The releases of a place, as their computer sees them for the first time."""
        store = open_place(where, setting="releases")
        return Releases(store, Trust(store, check, lambda: "", lambda _: None), self.signers)
