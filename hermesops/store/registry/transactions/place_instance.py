"""Places a new instance in a cell; concurrent computers never fill a cell beyond its limit.

It must not know how a cell is chosen; that is ``hermesops.agents.cells``.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.user import User
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, instance_subject, machine_name
from hermesops.model.plan import Plan
from hermesops.store.registry.repositories.base import Repository, WriteContext, insert_if_absent, new_id
from hermesops.store.registry.repositories.cells import CellRepository, cells_in
from hermesops.store.registry.repositories.instances.instance import (
    ALL,
    NO_SETTINGS,
    InstanceSecretRepository,
    instance_of,
)
from hermesops.store.registry.schema.tables import LIVING, cells, hermes_instances, instance_details

ATTEMPTS = 100
"""Attempts to find room; each one fails because others filled the chosen cell in the meantime."""

Choose = Callable[[Sequence[Cell]], Placement]
"""Chooses a cell for a new machine among those given."""


@dataclass(frozen=True)
class NewMachine:
    """First machine of an instance.

    Attributes:
        name: ``None`` for a new machine, which is named after the instance.
        machine_id: The vendor's id; ``None`` for a new machine.
        api_server_key: The key made on the machine; empty for a new one.
        subscription: Id of the Stripe subscription that pays for the instance; empty for none.
    """

    cell: CellName
    region: str
    server_type: str
    image_id: ImageId | None
    name: MachineName | None = None
    machine_id: MachineId | None = None
    api_server_key: str = field(default="", repr=False)
    subscription: str = ""


class PlacementTransactions(Repository):
    """Placement of new instances in cells."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._cells = CellRepository(context)
        self._secrets = InstanceSecretRepository(context)

    def place(
        self,
        user: User,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Choose,
        subscription: str = "",
    ) -> Instance:
        """Write the row of a user's instance in the cell that ``choose`` names, or return the living instance.

        Concurrent calls write one row; the second call returns that row, whatever its arguments. A new row has its
        machine's name and an API key. The cell is opened where it is new. Its row is locked to the commit, and the
        choice repeated on its content by then, so that the limit that ``choose`` checks is kept.

        ``user`` has a row (``users.resolve(…, create=True)``); ``image_id`` ``None`` is the vendor's base. ``choose``
        is pure: it is called with all cells, and again with the chosen one alone.

        Raises:
            UnavailableError: Others took the room a hundred times; nothing was written.
        """
        for _ in range(ATTEMPTS):
            place = choose(self._cells.list())
            with self._database.writing() as connection:
                if self.has_room_in(connection, choose, place):
                    machine = NewMachine(place.cell, place.region, server_type, image_id, subscription=subscription)
                    return self.write_in(connection, user, plan, machine)
        raise UnavailableError(f"found no room for {user.alias or user.id}: others took it {ATTEMPTS} times")

    def has_room_in(self, connection: sa.Connection, choose: Choose, place: Placement) -> bool:
        """Open the cell if it is new, lock it to the commit, and repeat the choice on its content by then."""
        self._cells.open_in(connection, place)
        is_it = cells.c.name == place.cell
        connection.execute(sa.select(cells.c.name).where(is_it).with_for_update())
        return choose(cells_in(connection, is_it)) == place

    def write_in(self, connection: sa.Connection, user: User, plan: Plan, machine: NewMachine) -> Instance:
        """Write the rows of a user's instance on a machine, or return the living instance."""
        instance_id = InstanceId(new_id())
        row = {
            "id": instance_id,
            "user_id": user.id,
            "plan": plan,
            "vm_id": machine.machine_id,
            "status": InstanceStatus.PROVISIONING,
            "stripe_subscription_id": machine.subscription or None,
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
            after = {"user": user.id, "plan": plan.value, "cell": machine.cell, "server_type": machine.server_type}
            if machine.name:
                after["machine"] = machine.name
            if machine.subscription:
                after["subscription"] = machine.subscription
            self._note(connection, "instance_created", instance_subject(instance_id), after=after)
        instance_row = connection.execute(ALL.where(hermes_instances.c.user_id == user.id, LIVING)).one_or_none()
        if instance_row is None:
            raise BrokenInvariantError(f"the instance of user {user.id} has no details beside its row")
        return instance_of(instance_row)
