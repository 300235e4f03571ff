"""What instances need from packages that they must not import; ``hermesops.app`` passes it in."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from hermesops.model.backup import Backup
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.instance import Instance, InstanceSecrets
from hermesops.model.plan import Plan
from hermesops.model.release import ReleaseId
from hermesops.model.route import PresentToken
from hermesops.model.user import User
from hermesops.vendor.justavps.wire import Image as VendorImage
from hermesops.wire.protocol import Credential


class Cells(Protocol):
    """Stacks of cells."""

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> object:
        """Run the cell's stack for the rows as they are, unless that has become needless."""


class ChooseCell(Protocol):
    """Chooses the cell and region of a new machine."""

    def __call__(self, cells: Sequence[Cell], *, plan: Plan, region: str, size: int, plans_apart: bool) -> Placement:
        """Choose a cell."""


class Pool(Protocol):
    """Machines that wait for users."""

    async def claim(
        self,
        user: Callable[[], User],
        plan: Plan,
        *,
        server_type: str,
        image_id: ImageId,
        region: str,
        subscription: str = "",
    ) -> Instance | None:
        """Assign a ready machine to the user and make the user's row; ``None`` when there is no such machine."""


class Budget(Protocol):
    """What may be spent."""

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        """Raise RefusedError when more machines of these server types and regions would pass the budget."""


class Backups(Protocol):
    """Backups of instances, made, proved and restored under a lease."""

    async def reach(self) -> object:
        """Make sure that where backups are kept answers."""

    def made(self, instance_id: InstanceId, why: str) -> Backup | None:
        """The backup that was made for that."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The one made last."""

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """One backup of an instance."""

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        """Back up the state on a machine, unless it was backed up for that before."""

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> object:
        """Restore a backup on a machine whose gateway is fenced, and compare the states."""

    async def prove(self, instance: Instance, backup: Backup) -> Backup:
        """Restore a backup elsewhere and compare the states; the backup's row gets the result."""

    async def revoke(self, instance_id: InstanceId) -> None:
        """End what an instance's machine could open its repository with; the backups stay."""


class SnapshotImages(Protocol):
    """The vendor's images of single instances."""

    async def named(self, name: str) -> VendorImage | None:
        """The image of a name."""

    async def save(self, machine_id: MachineId, name: str) -> None:
        """Begin to save a machine's disk."""

    async def await_end(self, image_id: str) -> None:
        """Return once it is saved or has failed."""

    async def drop(self, instance_id: InstanceId, *, why: str) -> None:
        """Delete an instance's."""


class Releases(Protocol):
    """What agents run."""

    async def of(self, instance_id: InstanceId, told: str) -> ReleaseId | None:
        """The release to deploy with an agent; ``None`` where it is in no store.

        Args:
            told: The release that its machine reports; empty if it reports none.
        """

    async def deploy(self, machine_id: MachineId, release: ReleaseId) -> None:
        """Have a machine without an instance run a release."""


class Bundle(Protocol):
    """A release in the form that machines get."""

    @property
    def id(self) -> ReleaseId:
        """Which."""

    def handout(self, python: str) -> bytes:
        """What a machine with that Python reads of it."""

    def blob(self, sha256: str) -> bytes | Path:
        """One file of it."""


class Keys(Protocol):
    """The source of an instance's secrets."""

    def secrets_of(self, instance_id: InstanceId) -> InstanceSecrets:
        """The instance's keys."""

    def renew(self, instance_id: InstanceId) -> PresentToken:
        """Its token for the model router; a fresh one where the old one has lived half its life."""

    def note_handed(self, instance_id: InstanceId, token: PresentToken) -> None:
        """Record that its machine has that token."""


class Authority(Protocol):
    """Issues certificates of machines."""

    def issue(
        self,
        request: str,
        machine_id: MachineId,
        *,
        cell: CellName | None = None,
        instance_id: InstanceId | None = None,
    ) -> Credential:
        """Issue a certificate with these names to a machine."""

    def is_known(self, serial: str) -> bool:
        """Whether a certificate is one that was issued here."""
