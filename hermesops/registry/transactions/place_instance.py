"""A new instance is put into a cell, by any number of computers at once, without one cell more than it may hold.

It must not know how a cell is chosen; that is ``hermesops.cells``.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, instance_subject, machine_name
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.user import User
from hermesops.registry.repositories.base import Repository, WriteContext, insert_if_absent, new_id
from hermesops.registry.repositories.cells import CellRepository, cells_in
from hermesops.registry.repositories.instances.instance import ALL, NO_SETTINGS, InstanceSecretRepository, instance_of
from hermesops.registry.schema.tables import LIVING, cells, hermes_instances, instance_details

ATTEMPTS = 100
"""Each one that fails found a cell filled by somebody else in the meantime."""

Choose = Callable[[Sequence[Cell]], Placement]
"""Chooses for a new machine among the cells it is shown."""


@dataclass(frozen=True)
class NewMachine:
    """What an instance's rows say of the machine that it begins on.

    Attributes:
        name: Empty where the machine is to be made: it is then named after the instance.
        machine_id: The vendor's, where there is one already.
        api_server_key: As the machine made it; empty has one made here.
    """

    cell: CellName
    region: str
    server_type: str
    image_id: ImageId | None
    name: MachineName | None = None
    machine_id: MachineId | None = None
    api_server_key: str = field(default="", repr=False)


class PlacementTransactions(Repository):
    """Instances into cells."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._cells = CellRepository(context)
        self._secrets = InstanceSecretRepository(context)

    def place(self, user: User, *, plan: Plan, server_type: str, image_id: ImageId | None, choose: Choose) -> Instance:
        """Write the row of a user's instance into the cell that ``choose`` names, or find the one that lives.

        Two at once, from two processes too, make one row: the second gets the first one's, whatever it asked for.
        A new row has its machine's name and an API key of its own.
        The cell's row is locked from the choice, which is repeated on what that cell then holds, to the commit: what
        ``choose`` promises of a cell's room is true when the row is written. The cell is opened where it is new.

        Args:
            user: Who has a row (``users.resolve(…, create=True)``).
            plan: What they bought.
            server_type: Of the machine.
            image_id: What it boots from, ``None`` the vendor's base.
            choose: Pure; asked with all cells, and again with the chosen one alone.

        Raises:
            UnavailableError: Others were faster a hundred times; nothing was written.
        """
        for _ in range(ATTEMPTS):
            place = choose(self._cells.list())
            with self._database.writing() as connection:
                if self.has_room_in(connection, choose, place):
                    machine = NewMachine(place.cell, place.region, server_type, image_id)
                    return self.write_in(connection, user, plan, machine)
        raise UnavailableError(f"found no room for {user.alias or user.id}: others took it {ATTEMPTS} times")

    def has_room_in(self, connection: sa.Connection, choose: Choose, place: Placement) -> bool:
        """Open the cell where it is new, lock it to the commit, and repeat the choice on what it then holds."""
        self._cells.open_in(connection, place)
        is_it = cells.c.name == place.cell
        connection.execute(sa.select(cells.c.name).where(is_it).with_for_update())
        return choose(cells_in(connection, is_it)) == place

    def write_in(self, connection: sa.Connection, user: User, plan: Plan, machine: NewMachine) -> Instance:
        """Write the rows of a user's instance on a machine, or find those of the one that lives."""
        instance_id = InstanceId(new_id())
        row = {
            "id": instance_id,
            "user_id": user.id,
            "plan": plan,
            "vm_id": machine.machine_id,
            "status": InstanceStatus.PROVISIONING,
            "created_at": self._database.now(connection),
        }
        if insert_if_absent(connection, hermes_instances, row):
            name = machine.name or machine_name(self._context.environment, machine.cell, instance_id)
            key = machine.api_server_key or secrets.token_urlsafe(32)
            details = {
                "instance_id": instance_id,
                "cell": machine.cell,
                "machine_name": name,
                "machine_wanted": True,
                "server_type": machine.server_type,
                "region": machine.region,
                "image_id": machine.image_id,
                "epoch": 1,
                "settings": self._secrets.seal_in(connection, NO_SETTINGS, "settings", instance_id),
                "api_server_key": self._secrets.seal_in(connection, key, "api_server_key", instance_id),
                "model_token_generation": 1,
            }
            connection.execute(instance_details.insert().values(details))
            made = {"user": user.id, "plan": plan.value, "cell": machine.cell, "server_type": machine.server_type}
            if machine.name:
                made["machine"] = machine.name
            self._note(connection, "instance_created", instance_subject(instance_id), after=made)
        found = connection.execute(ALL.where(hermes_instances.c.user_id == user.id, LIVING)).one_or_none()
        if found is None:
            raise BrokenInvariantError(f"the instance of user {user.id} has no details beside its row")
        return instance_of(found)
