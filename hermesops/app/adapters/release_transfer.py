"""Composes the releases that go with agents onto other machines."""

from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError, UnavailableError
from hermesops.instances.remote.releases import ReleaseClient
from hermesops.model.release import ReleaseId
from hermesops.operations.db_thread import in_db_thread
from hermesops.release.releases import HandedOut

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.ids import InstanceId, MachineId
    from hermesops.model.operation import Lease


class ReleaseTransfer:
    """The releases that agents take with them.

    An image brings a release of its own, which may be older than what wrote an agent's state.

    Args:
        session: What machines are reached with.
        lease: Under which machines are changed.
    """

    def __init__(self, session: "Connected", lease: "Lease") -> None:
        self._session = session
        self._app = session.app
        self._lease = lease

    async def of(self, instance_id: "InstanceId", told: str) -> ReleaseId | None:
        """What an agent runs, where it is kept; what came with an image is not, and comes with the next one.

        Args:
            instance_id: Whose.
            told: What its machine says; empty where it says nothing, and then what was written down counts.
        """
        noted = ReleaseId(told) or (await in_db_thread(self._app.registry.rollout_targets.instance_releases)).get(
            instance_id
        )
        return noted if noted in self._kept else None

    async def deploy(self, machine_id: "MachineId", release: ReleaseId) -> None:
        """Have a machine without an instance run a release.

        Raises:
            RefusedError: The release was revoked, does not hold, or does not run there.
            UnavailableError: The machine does not answer.
            LeaseLostError: Somebody with a newer lease has been there.
        """
        slots = ReleaseClient(self._session.instance_client.channel, self._lease)
        seen = await slots.observe(machine_id)
        if seen is None:
            raise UnavailableError(f"hermes-node on machine {machine_id} tells nothing of releases")
        done = await slots.deploy(machine_id, HandedOut(release, self._app.releases), python=seen.python)
        if done.problem:
            raise RefusedError(
                f"release {release} does not run on machine {machine_id}: {done.stage}: {done.problem}",
                hint=f"hermesops release show {release}",
            )

    @cached_property
    def _kept(self) -> frozenset[str]:
        return self._app.releases.ids()
