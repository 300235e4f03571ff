"""Releases of real agents, made of the packages that images are made of, so that no index is asked for them."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.channel import Channel
from hermesops.node import build as node
from hermesops.node.protocol import PROGRAM
from hermesops.node.release.documents.handout import Handout
from hermesops.node.release.documents.lock import Blob, Lock, Managed, Node, Wheels
from hermesops.release.requirements import render
from tests.support.releases.newer_agent import OLD, newer_agent
from tests.support.releases.signer import Operator

_PATH = "/run/hermes-node/handout.json"
_BLOBS = "/opt/hermes/blobs/incoming"


@dataclass
class RealReleases:
    """Makes and hands them out, with a key of its own.

    Attributes:
        bundle: What the image's agent was installed from.
        python: It is for.
        unit: ``hermes-gateway.service`` as it is on machines.
        folder: Takes what is made.
        files: Of the releases, by SHA-256.
    """

    bundle: Path
    python: str
    unit: bytes
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.operator = Operator(self.folder, "release")
        node.write(self.folder / "hermes-node")
        (self.folder / "unit").write_bytes(self.unit)
        (self.folder / "sandbox").write_bytes(b"")

    def same(self, note: str) -> Lock:
        """The agent that images have, as another release."""
        return self._lock(OLD, None, Managed({"gateway": {"note": note}}, {}))

    def newer(self, version: str = "0.20.0", *, dies: bool = False) -> Lock:
        """One whose state the images' agent cannot read, or whose gateway cannot start."""
        wheel = next((self.bundle / "wheels").glob(f"hermes_agent-{OLD}-*.whl"))
        return self._lock(version, newer_agent(wheel, self.folder, version=version, dies=dies), Managed())

    async def deploy(self, channel: Channel, lock: Lock) -> None:
        """Have a machine fetch a release."""
        for _ in range(2):
            await channel.put(_PATH, self._handout(lock).to_json(), mode=0o600)
            done = await channel.run(f"{PROGRAM} release fetch {_PATH}", timeout_s=120)
            if done.exit_code == 0:
                return
            assert done.exit_code == 7, done.text + done.stderr.decode()
            held = (await channel.run(f"ls {_BLOBS}/.. {_BLOBS}", timeout_s=30)).text
            for blob in lock.blobs(self.python):
                if blob.sha256 not in held:
                    await channel.put(f"{_BLOBS}/{blob.sha256}", self.files[blob.sha256], mode=0o600)
        raise AssertionError("the machine lacks files that were brought to it")

    def _lock(self, version: str, wheel: Path | None, managed: Managed) -> Lock:
        wheels = [wheel or path if path.name.startswith("hermes_agent-") else path for path in self._wheels()]
        blobs = tuple(sorted((self._blob(path) for path in wheels), key=lambda blob: blob.name))
        requirements = self.folder / f"requirements-{version}.txt"
        requirements.write_bytes(render(self.python, blobs))
        return Lock(
            agent_version=version,
            origin="wheel" if wheel else "index",
            config_schema=33,
            pythons={self.python: Wheels(self._blob(requirements), blobs)},
            uv=self._blob(self.bundle / "uv"),
            skills=self._blob(self.bundle / "skills.tar.gz"),
            site=(),
            unit=self._blob(self.folder / "unit", "hermes-gateway.service"),
            managed=managed,
            node=Node(1, self._blob(self.folder / "hermes-node")),
        )

    def _wheels(self) -> list[Path]:
        return sorted((self.bundle / "wheels").glob("*.whl"))

    def _handout(self, lock: Lock) -> Handout:
        return Handout(self.operator.signed(lock.to_json().decode()), (self.operator.first_signers(),))

    def _blob(self, path: Path, name: str = "") -> Blob:
        digest = _sha256(path)
        self.files[digest] = path
        return Blob(name or path.name, digest, path.stat().st_size)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
