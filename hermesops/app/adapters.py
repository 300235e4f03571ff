"""Adapters for real and for simulated machines; the container chooses one set, once.

A simulated machine has no packages, no roles and no repository: images are saved as they come, releases have no wheels,
and copies of states are in the world itself, whose object store has keys and no server.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.base.extras import Extra, require
from hermesops.model.ids import MachineId
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from hermesops.agents.backup.proof.restore_check import Proof
    from hermesops.agents.backup.store.object_store import ObjectStore
    from hermesops.agents.backup.store.repository import Repository
    from hermesops.agents.backup.store.repository_contents import RepositoryContents
    from hermesops.agents.backup.store.repository_keys import Keys
    from hermesops.agents.backup.store.restic import Restic
    from hermesops.machines.image.build import Builder as ImageBuilder
    from hermesops.machines.release.builder.build import Builder as ReleaseBuilder
    from hermesops.store.registry import Registry

_LOCAL_BUCKET = "backups"

Checks = Callable[[MachineId], Awaitable[Sequence[str]]]
"""What a machine should be and is not, a line for each."""


def adapters_of(env: Environment) -> "WorldAdapters":
    """The adapters for an environment's machines."""
    from hermesops.localcloud.world.files import is_simulated

    if env.is_local and is_simulated(env.world, env.settings.local.driver):
        return SimulatedAdapters(env.world)
    return WorldAdapters()


class WorldAdapters:
    """Adapters for real machines, rented or on this computer."""

    is_simulated = False

    @property
    def image_builder(self) -> "type[ImageBuilder]":
        """Builds images.

        Raises:
            UsageError: An extra that a build needs is missing.
        """
        require(Extra.BUILD, "building an image")
        from hermesops.machines.image.build import Builder

        return Builder

    @property
    def release_builder(self) -> "type[ReleaseBuilder]":
        """Builds releases.

        Raises:
            UsageError: As ``image_builder``.
        """
        require(Extra.BUILD, "building a release")
        from hermesops.machines.release.builder.build import Builder

        return Builder

    def machine_checks(self, checks: Checks) -> Checks:
        """The checks that a machine without a user gets, out of all."""
        return checks

    def proof(self, registry: "Registry", keys: "Keys", restic: "Restic", report: Callable[[str], None]) -> "Proof":
        """Restore backups on this computer to compare them with their recorded contents."""
        from hermesops.agents.backup.proof.restore_check import Proof

        return Proof(registry, keys, restic, report)

    async def local_store(self, start: Callable[[], Awaitable[Mapping[str, str]]]) -> "ObjectStore":
        """The local world's object store.

        Args:
            start: Starts its server, built at first need, and returns its address.

        Raises:
            UnavailableError: The local world is down, or its object store could not be built.
        """
        from hermesops.agents.backup.store.object_store import ObjectStore
        from hermesops.agents.backup.store.repository import Bucket

        where = await start()
        bucket = Bucket(_LOCAL_BUCKET, where["region"], where["endpoint"], where["iam_endpoint"])
        return ObjectStore(bucket, Path(where["key_file"]), is_local=True)

    def contents(
        self, registry: "Registry", keys: "Keys", restic: "Restic", store: "Callable[[], Awaitable[ObjectStore]]"
    ) -> "RepositoryContents":
        """List and delete copies of instances in their restic repositories."""
        del registry
        from hermesops.agents.backup.store.repository_contents import ResticContents

        return ResticContents(keys, restic, store)

    async def begin_repository(self, restic: "Restic", repository: "Repository", password: str) -> None:
        """Create an instance's backup repository, encrypted with ``password``."""
        await restic.begin(repository, password)


class SimulatedAdapters(WorldAdapters):
    """Adapters for simulated machines: no Ansible, no packages, no backup repositories."""

    is_simulated = True

    def __init__(self, world: Path) -> None:
        self._world = world

    @property
    def image_builder(self) -> "type[ImageBuilder]":
        """Save a simulated machine as an image, without installing anything."""
        from hermesops.machines.image.simulated import SimulatedBuilder

        return SimulatedBuilder

    @property
    def release_builder(self) -> "type[ReleaseBuilder]":
        """Locks and signs releases without wheels."""
        from hermesops.machines.release.simulated import SimulatedBuilder

        return SimulatedBuilder

    def machine_checks(self, checks: Checks) -> Checks:
        """Nothing: roles install nothing on simulated machines."""
        del checks

        async def none(machine_id: MachineId) -> Sequence[str]:
            del machine_id
            return ()

        return none

    def proof(self, registry: "Registry", keys: "Keys", restic: "Restic", report: Callable[[str], None]) -> "Proof":
        """Counts the contents of a copy again."""
        from hermesops.agents.backup.proof.simulated import SimulatedProof
        from hermesops.localcloud.drivers.sim.node.state import digest_of_copy

        return SimulatedProof(registry, keys, restic, partial(digest_of_copy, self._world), report)

    async def local_store(self, start: Callable[[], Awaitable[Mapping[str, str]]]) -> "ObjectStore":
        """Keys in a folder of the world; no server is started, and none is built."""
        del start
        from hermesops.agents.backup.store.simulated import SimulatedStore

        return SimulatedStore(self._world, _LOCAL_BUCKET)

    def contents(
        self, registry: "Registry", keys: "Keys", restic: "Restic", store: "Callable[[], Awaitable[ObjectStore]]"
    ) -> "RepositoryContents":
        """Copies in the world's own memory."""
        del keys, restic, store
        from hermesops.agents.backup.proof.simulated import SimulatedContents
        from hermesops.localcloud.drivers.sim.node.state import drop_copies

        return SimulatedContents(registry.backups.list, partial(drop_copies, self._world))

    async def begin_repository(self, restic: "Restic", repository: "Repository", password: str) -> None:
        """Do nothing: there are no repositories."""
