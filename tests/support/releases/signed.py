"""Releases of simulated agents with real signatures, as a store would hand them out."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.localcloud.drivers.sim.agent.release_faults import VARIABLE
from hermesops.wire.documents.handout import Handout
from hermesops.wire.documents.lock import Blob, Lock, Managed, Node
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import Kind
from tests.support.releases.signer import Operator


@dataclass
class SignedReleases:
    """Makes them, with keys of its own.

    Attributes:
        folder: Where the keys are.
        content: Of each file of a release, by its SHA-256.
        operators: Who has a key, by name; made when one signs first.
    """

    folder: Path
    content: dict[str, bytes] = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)

    def lock(self, version: str = "9.1.0", *, fault: str = "", protocol: int = 1) -> Lock:
        """A release; ``fault`` says what is wrong with it (``localcloud.drivers.sim.agent.release_faults``)."""
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

    def handout(self, lock: Lock, *, by: str = "release", revocations: Revocations | None = None) -> Handout:
        """What a machine is handed of a release that was signed with one key."""
        operator = self._operator(by)
        return Handout(
            lock=operator.signed(lock.to_json().decode()),
            signers=(operator.first_signers(),),
            revocations=operator.signed(revocations.to_json().decode(), Kind.REVOCATIONS) if revocations else None,
        )

    def _operator(self, name: str) -> Operator:
        if name not in self.operators:
            self.operators[name] = Operator(self.folder, name)
        return self.operators[name]
