"""Releases of simulated agents with real signatures, as a store would hand them out."""

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.access.signature import Signers
from hermesops.localcloud.sim.ailments import VARIABLE
from hermesops.node.release_handout import Handout, Signed
from hermesops.node.release_lock import NAMESPACE, Blob, Lock, Managed, Node
from hermesops.node.revocations import Revocations


@dataclass
class SignedReleases:
    """Makes them, with a key of its own.

    Attributes:
        folder: Where the key is.
        content: Of each file of a release, by its SHA-256.
    """

    folder: Path
    content: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key("release")

    def key(self, name: str) -> Path:
        """A key of that name, made once."""
        key = self.folder / name
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
        return key

    def lock(self, version: str = "9.1.0", *, fault: str = "", protocol: int = 1) -> Lock:
        """A release; ``fault`` says what is wrong with it (``localcloud.sim.ailments``)."""
        unit = f"[Unit]\nDescription=Hermes Agent {version}\n[Service]\nType=notify\n".encode()
        return Lock(
            agent_version=version,
            origin="simulated",
            config_schema=33,
            pythons={},
            uv=self.blob("uv", b"uv"),
            skills=self.blob("skills.tar.gz", b"skills"),
            site=(),
            unit=self.blob("hermes-gateway.service", unit),
            managed=Managed({}, {VARIABLE: fault} if fault else {}),
            node=Node(protocol, self.blob("hermes-node", b"program")),
        )

    def blob(self, name: str, data: bytes) -> Blob:
        """A file of a release."""
        digest = hashlib.sha256(data).hexdigest()
        self.content[digest] = data
        return Blob(name, digest, len(data))

    def signed(self, text: str, key: str = "release") -> Signed:
        """A text with a key's signature."""
        return Signed(text, Signers(self.key(key)).sign(text.encode(), namespace=NAMESPACE))

    def signers(self, *names: str) -> str:
        """A file of allowed signers."""
        publics = (self.key(name).with_suffix(".pub").read_text() for name in names)
        pairs = zip(names, publics, strict=True)
        return "".join(f'{name}@example.net namespaces="{NAMESPACE}" {public}' for name, public in pairs)

    def handout(self, lock: Lock, *, by: str = "release", revocations: Revocations | None = None) -> Handout:
        """What a machine is handed of a release that was signed with one key."""
        return Handout(
            lock=self.signed(lock.to_json().decode(), by),
            signers=(self.signed(self.signers(by), by),),
            revocations=self.signed(revocations.to_json().decode(), by) if revocations else None,
        )
