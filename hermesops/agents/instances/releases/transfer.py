"""Transfers the release of an agent to the machine that it is relocated to."""

from dataclasses import dataclass
from functools import cached_property

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.release import Releases
from hermesops.machines.release.releases import HandedOut
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class ReleaseTransfer:
    """Transfers releases.

    An image contains a release, which may be older than the one that wrote an agent's state.
    """

    registry: Registry
    releases: Releases
    release_client: ReleaseClient

    async def of(self, instance_id: InstanceId, reported: str) -> ReleaseId | None:
        """The release that an agent runs, if the store has it.

        Args:
            told: What its machine reports; if empty, the registry's row is used.
        """
        noted = ReleaseId(reported) or (await in_db_thread(self.registry.rollout_targets.instance_releases)).get(
            instance_id
        )
        return noted if noted in self._kept else None

    async def deploy(self, machine_id: MachineId, release: ReleaseId) -> None:
        """Install and activate a release on a machine without an instance.

        Raises:
            RefusedError: The release was revoked, does not hold, or does not run there.
            UnavailableError: The machine does not answer.
            LeaseLostError: Somebody with a newer lease has been there.
        """
        state = await self.release_client.observe(machine_id)
        if state is None:
            raise UnavailableError(f"hermes-node on machine {machine_id} does not report its releases")
        done = await self.release_client.deploy(machine_id, HandedOut(release, self.releases), python=state.python)
        if done.problem:
            raise RefusedError(
                f"release {release} does not run on machine {machine_id}: {done.stage}: {done.problem}",
                hint=Hint(("release", "show", release)),
            )

    @cached_property
    def _kept(self) -> frozenset[str]:
        return self.releases.ids()
