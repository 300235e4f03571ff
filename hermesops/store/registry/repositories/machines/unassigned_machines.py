"""Rows of ``unassigned_machines``: the machines of cells that no instance is on.

It must not know which machines a pool wants; that is ``hermesops.agents.pool``.
"""

from typing import Any

import sqlalchemy as sa

from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus, machine_subject
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, machine_name
from hermesops.model.plan import Plan
from hermesops.store.registry.encryption.sealing import place as place_of
from hermesops.store.registry.repositories.base import Repository, WriteContext, insert_if_absent, new_id
from hermesops.store.registry.repositories.cells import CellRepository
from hermesops.store.registry.schema.tables import proxy_tokens, unassigned_machines, unsealed
from hermesops.store.registry.transactions.place_instance import ATTEMPTS, Choose, PlacementTransactions
from hermesops.store.registry.transactions.revoke_credentials import give_up_machine


class UnassignedMachineRepository(Repository):
    """Machines of the warm pool, of drills, and those that instances change from and to."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._cells = CellRepository(context)
        self._placements = PlacementTransactions(context)

    def list(
        self,
        *,
        cell: CellName | None = None,
        role: MachineRole | None = None,
        instance_id: InstanceId | None = None,
    ) -> tuple[UnassignedMachine, ...]:
        """Unassigned machines, oldest first; those given up too, until ``forget``."""
        columns = unassigned_machines.c
        query = sa.select(*unsealed(unassigned_machines)).order_by(columns.created_at, columns.name)
        for column, value in ((columns.cell, cell), (columns.role, role), (columns.instance_id, instance_id)):
            if value is not None:
                query = query.where(column == value)
        return tuple(map(unassigned_of, self._rows(query)))

    def find(self, name: MachineName) -> UnassignedMachine | None:
        """The unassigned machine of that name."""
        row = self._row(sa.select(*unsealed(unassigned_machines)).where(unassigned_machines.c.name == name))
        return unassigned_of(row) if row else None

    def place(
        self,
        role: MachineRole,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Choose,
        instance_id: InstanceId | None = None,
        why: str = "",
    ) -> UnassignedMachine:
        """Order a machine, with a new name, in the cell that ``choose`` names; the next run of that cell makes it.

        An instance has at most one next machine: a second order returns the first one. ``choose`` is as in
        ``placements.place``; ``image_id`` ``None`` is the vendor's base; ``instance_id`` ``None`` is the pool.

        Raises:
            UnavailableError: Others took the room a hundred times; nothing was written.
        """
        for _ in range(ATTEMPTS):
            place = choose(self._cells.list())
            with self._database.writing() as connection:
                if not self._placements.has_room_in(connection, choose, place):
                    continue
                name = machine_name(self._context.environment, place.cell, InstanceId(new_id()))
                values = {
                    "name": name,
                    "role": role,
                    "instance_id": instance_id,
                    "cell": place.cell,
                    "plan": plan,
                    "server_type": server_type,
                    "region": place.region,
                    "image_id": image_id,
                    "wanted": True,
                    "status": UnassignedStatus.PREPARING,
                    "epoch": 0,
                    "created_at": self._database.now(connection),
                }
                if insert_if_absent(connection, unassigned_machines, values):
                    after = {"role": role, "cell": place.cell, "plan": plan, "instance": instance_id or ""}
                    self._note(connection, "machine_ordered", machine_subject(name), after=after, why=why)
                    return unassigned_of(self._row_in(connection, name))
                is_it = sa.and_(unassigned_machines.c.instance_id == instance_id, unassigned_machines.c.wanted)
                query = sa.select(unassigned_machines).where(is_it, unassigned_machines.c.role == role)
                return unassigned_of(connection.execute(query).one())
        raise UnavailableError(f"found no room for an unassigned machine: others took it {ATTEMPTS} times")

    def set_machine(self, name: MachineName, machine_id: MachineId, *, why: str = "") -> UnassignedMachine:
        """Record the vendor's id of an unassigned machine."""
        with self._database.writing() as connection:
            before, after = {"machine_id": self._row_in(connection, name).machine_id}, {"machine_id": machine_id}
            if before != after:
                connection.execute(unassigned_machines.update().where(unassigned_machines.c.name == name).values(after))
                self._note(connection, "machine_id_set", machine_subject(name), before=before, after=after, why=why)
            return unassigned_of(self._row_in(connection, name))

    def mark_ready(self, name: MachineName, *, api_server_key: str = "", why: str = "") -> UnassignedMachine:
        """Mark a machine as ready to be taken, with the API key that was made on it where its gateway is warm.

        Raises:
            RefusedError: It was given up or taken in the meantime.
        """
        with self._database.writing() as connection:
            sealed = self._seal_in(connection, api_server_key, _key_place(name)) if api_server_key else None
            row = self._row_in(connection, name)
            if not row.wanted or row.status not in {UnassignedStatus.PREPARING, UnassignedStatus.READY}:
                raise RefusedError(f"machine {name} is {row.status} and can no longer be taken")
            now = self._database.now(connection)
            values = {"status": UnassignedStatus.READY, "api_server_key": sealed, "ready_at": now}
            connection.execute(unassigned_machines.update().where(unassigned_machines.c.name == name).values(values))
            if row.status != UnassignedStatus.READY:
                self._note(connection, "machine_ready", machine_subject(name), after={"id": row.machine_id}, why=why)
            return unassigned_of(self._row_in(connection, name))

    def retire(self, name: MachineName, *, why: str = "") -> bool:
        """Let the next run of its cell destroy an unassigned machine; whether it was still wanted.

        Changes nothing for a machine that is gone, given up, or taken by an instance.
        """
        with self._database.writing() as connection:
            row = locked_in(connection, name)
            if row is None or not row.wanted:
                return False
            gone = {"wanted": False, "status": UnassignedStatus.DRAINING, "api_server_key": None}
            connection.execute(unassigned_machines.update().where(unassigned_machines.c.name == name).values(gone))
            give_up_machine(connection, row.machine_id, self._database.now(connection))
            before = {"status": row.status, "role": row.role}
            self._note(connection, "machine_retired", machine_subject(name), before=before, why=why)
            return True

    def forget(self, name: MachineName, *, why: str = "") -> None:
        """Delete the row and the proxy tokens of a machine that was given up and no longer exists.

        Raises:
            RefusedError: It is still wanted.
        """
        with self._database.writing() as connection:
            row = locked_in(connection, name)
            if row is None:
                return
            if row.wanted:
                raise RefusedError(f"machine {name} is still wanted: retire it first")
            connection.execute(unassigned_machines.delete().where(unassigned_machines.c.name == name))
            connection.execute(proxy_tokens.delete().where(proxy_tokens.c.machine_id == row.machine_id))
            before = {"id": row.machine_id, "role": row.role}
            self._note(connection, "machine_gone", machine_subject(name), before=before, why=why)

    def _row_in(self, connection: sa.Connection, name: MachineName) -> sa.Row[Any]:
        row = locked_in(connection, name)
        if row is None:
            raise UsageError(f"there is no unassigned machine {name}", hint=Hint(("pool", "list")))
        return row

    def api_server_key_of(self, row: sa.Row[Any]) -> str:
        """The API key that was made on the machine; empty where none was."""
        return self._context.sealer.unseal(row.api_server_key, place=_key_place(row.name)) if row.api_server_key else ""


def locked_in(connection: sa.Connection, name: MachineName) -> sa.Row[Any] | None:
    """An unassigned machine's row, locked until the transaction ends."""
    query = sa.select(unassigned_machines).where(unassigned_machines.c.name == name).with_for_update()
    return connection.execute(query).one_or_none()


def unassigned_of(row: sa.Row[Any]) -> UnassignedMachine:
    """The unassigned machine of a row."""
    fields = row._asdict()
    fields.pop("api_server_key", None)
    enums = {"role": MachineRole(row.role), "plan": Plan(row.plan), "status": UnassignedStatus(row.status)}
    return UnassignedMachine(**fields | enums)


def _key_place(name: str) -> str:
    return place_of("unassigned_machines", "api_server_key", name)
