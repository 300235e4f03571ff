"""Releases of real agents, made of an image's own and put into its store, so that no index is asked for them."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.machines.release import Releases
from hermesops.machines.release.blobs import BlobStore
from hermesops.machines.release.releases import HandedOut
from hermesops.machines.release.requirements import render
from hermesops.model.ids import MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.channel import Channel
from hermesops.wire.documents.lock import Blob, Lock, Managed, Wheels
from tests.support.releases.newer_agent import newer_agent


@dataclass
class RealReleases:
    """Makes and hands them out.

    Attributes:
        releases: The store.
        first: The release that images have.
        python: Of the machines.
        folder: Takes what is made.
    """

    releases: Releases
    first: Lock
    python: str
    folder: Path

    def same(self, note: str) -> Lock:
        """The agent that images have, as another release."""
        return self._put(replace(self.first, managed=Managed({"gateway": {"note": note}}, {})))

    def newer(self, version: str = "0.20.0", *, dies: bool = False, schema: int = 0) -> Lock:
        """One whose state the images' agent cannot read, whose gateway cannot start, or with another configuration."""
        blob_store, wheels = BlobStore(self.releases.store), self.first.pythons[self.python].wheels
        older = next(blob for blob in wheels if blob.name.startswith("hermes_agent-"))
        path = self.folder / older.name
        path.write_bytes(self.releases.blob(older))
        wheel = newer_agent(path, self.folder, version=version, dies=dies, schema=schema)
        own = blob_store.keep(wheel.name, wheel.read_bytes())
        changed = tuple(sorted((own if blob == older else blob for blob in wheels), key=_name))
        requirements = blob_store.keep("requirements.txt", render(self.python, changed))
        pythons = {self.python: Wheels(requirements, changed)}
        lock = replace(self.first, agent_version=version, origin="wheel", pythons=pythons, managed=Managed())
        return self._put(replace(lock, config_schema=schema or lock.config_schema))

    async def deploy(self, channel: Channel, lock: Lock) -> None:
        """Have a machine fetch a release."""
        bundle = HandedOut(ReleaseId(lock.id), self.releases)
        await ReleaseClient(lambda _: channel).fetch(MachineId(channel.machine_id), bundle, python=self.python)

    def _put(self, lock: Lock) -> Lock:
        self.releases.put(lock, who="test", note="", at=datetime.now(UTC))
        return lock


def _name(blob: Blob) -> str:
    return blob.name
