"""Rows of ``spare_machines``: what a cell has beside the machines of its instances.

It must not know which machines a pool wants; that is ``hermesops.pool``.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, machine_name
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus, spare_subject
from hermesops.registry.encryption.sealing import place as place_of
from hermesops.registry.repositories.base import Repository, WriteContext, insert_if_absent, new_id
from hermesops.registry.repositories.cells import CellRepository
from hermesops.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.registry.schema.tables import proxy_tokens, spare_machines
from hermesops.registry.transactions.place_instance import ATTEMPTS, Choose, PlacementTransactions
from hermesops.registry.transactions.revoke_credentials import revoke_machine


class SpareRepository(Repository):
    """Machines of the warm pool, and those that instances change from and to."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._cells = CellRepository(context)
        self._placements = PlacementTransactions(context)

    def list(
        self,
        *,
        cell: CellName | None = None,
        purpose: Purpose | None = None,
        instance_id: InstanceId | None = None,
    ) -> tuple[Spare, ...]:
        """Spare machines by age, oldest first; those given up too, until they are known to be gone."""
        columns = spare_machines.c
        query = sa.select(spare_machines).order_by(columns.created_at, columns.name)
        for column, value in ((columns.cell, cell), (columns.purpose, purpose), (columns.instance_id, instance_id)):
            if value is not None:
                query = query.where(column == value)
        with self._database.reading() as connection:
            return tuple(spare_of(row) for row in connection.execute(query))

    def find(self, name: MachineName) -> Spare | None:
        """The spare machine of that name."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(spare_machines).where(spare_machines.c.name == name)).one_or_none()
        return spare_of(row) if row else None

    def place(
        self,
        purpose: Purpose,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Choose,
        instance_id: InstanceId | None = None,
        why: str = "",
    ) -> Spare:
        """Order a machine into the cell that ``choose`` names; the run of that cell makes it.

        It has a name of its own that no machine had before. An instance has one next machine at most: whoever orders a
        second gets the first one.

        Args:
            purpose: Why.
            plan: Whose size it has.
            server_type: Of the machine.
            image_id: What it boots from, ``None`` the vendor's base.
            choose: As in ``placements.place``; for a cell that is known it names that one.
            instance_id: Whose; ``None`` for the pool.
            why: For the audit.

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
                    "purpose": purpose,
                    "instance_id": instance_id,
                    "cell": place.cell,
                    "plan": plan,
                    "server_type": server_type,
                    "region": place.region,
                    "image_id": image_id,
                    "wanted": True,
                    "status": SpareStatus.GROWING,
                    "epoch": 0,
                    "created_at": self._database.now(connection),
                }
                if insert_if_absent(connection, spare_machines, values):
                    told = {"purpose": purpose, "cell": place.cell, "plan": plan, "instance": instance_id or ""}
                    self._note(connection, "spare_ordered", spare_subject(name), after=told, why=why)
                    return spare_of(self._spare_in(connection, name))
                is_it = sa.and_(spare_machines.c.instance_id == instance_id, spare_machines.c.wanted)
                held = sa.select(spare_machines).where(is_it, spare_machines.c.purpose == purpose)
                return spare_of(connection.execute(held).one())
        raise UnavailableError(f"found no room for a spare machine: others took it {ATTEMPTS} times")

    def set_machine(self, name: MachineName, machine_id: MachineId, *, why: str = "") -> Spare:
        """Write which machine it is."""
        return self._set_spare(name, "spare_machine_set", {"machine_id": machine_id}, why)

    def mark_ready(self, name: MachineName, *, api_server_key: str = "", why: str = "") -> Spare:
        """Write that it is well and may be taken, with the API key that was made on it where its gateway is warm.

        Raises:
            RefusedError: It was given up or taken in the meantime.
        """
        with self._database.writing() as connection:
            sealed = self._seal_in(connection, api_server_key, _key_place(name)) if api_server_key else None
            row = self._spare_in(connection, name)
            if not row.wanted or row.status not in {SpareStatus.GROWING, SpareStatus.READY}:
                raise RefusedError(f"machine {name} is {row.status}: it is no longer one that could be taken")
            now = self._database.now(connection)
            values = {"status": SpareStatus.READY, "api_server_key": sealed, "ready_at": now}
            connection.execute(spare_machines.update().where(spare_machines.c.name == name).values(values))
            if row.status != SpareStatus.READY:
                self._note(connection, "spare_ready", spare_subject(name), after={"id": row.machine_id}, why=why)
            return spare_of(self._spare_in(connection, name))

    def retire(self, name: MachineName, *, why: str = "") -> bool:
        """Give a spare machine up: the next run of its cell destroys it; whether it was still wanted.

        Safe to call twice, and for one that is gone or that an instance has taken: then nothing is changed.
        """
        with self._database.writing() as connection:
            row = locked_in(connection, name)
            if row is None or not row.wanted:
                return False
            self._retire_in(connection, row, why)
            return True

    def forget(self, name: MachineName, *, why: str = "") -> None:
        """Remove the row of a machine that was given up and is known to be gone, with what opened its doors.

        Raises:
            RefusedError: It is still wanted.
        """
        with self._database.writing() as connection:
            row = locked_in(connection, name)
            if row is None:
                return
            if row.wanted:
                raise RefusedError(f"machine {name} is still wanted: retire it first")
            connection.execute(spare_machines.delete().where(spare_machines.c.name == name))
            connection.execute(proxy_tokens.delete().where(proxy_tokens.c.machine_id == row.machine_id))
            told = {"id": row.machine_id, "purpose": row.purpose}
            self._note(connection, "spare_gone", spare_subject(name), before=told, why=why)

    def _retire_in(self, connection: sa.Connection, row: sa.Row[Any], why: str) -> None:
        is_it = spare_machines.c.name == row.name
        gone = {"wanted": False, "status": SpareStatus.DRAINING, "api_server_key": None}
        connection.execute(spare_machines.update().where(is_it).values(gone))
        now = self._database.now(connection)
        revoke_machine(connection, row.machine_id, now, "its machine was given up")
        destroy_data_keys(connection, now, machine_id=row.machine_id)
        before = {"status": row.status, "purpose": row.purpose}
        self._note(connection, "spare_retired", spare_subject(row.name), before=before, why=why)

    def _set_spare(self, name: MachineName, action: str, values: Mapping[str, Any], why: str) -> Spare:
        with self._database.writing() as connection:
            row = self._spare_in(connection, name)
            before = {column: getattr(row, column) for column in values}
            if before != dict(values):
                connection.execute(spare_machines.update().where(spare_machines.c.name == name).values(values))
                self._note(connection, action, spare_subject(name), before=before, after=values, why=why)
            return spare_of(self._spare_in(connection, name))

    def _spare_in(self, connection: sa.Connection, name: MachineName) -> sa.Row[Any]:
        row = locked_in(connection, name)
        if row is None:
            raise UsageError(f"there is no spare machine {name}", hint="hermesops pool list")
        return row

    def api_server_key_of(self, row: sa.Row[Any]) -> str:
        """The API key that was made on the machine; empty where none was."""
        return self._context.sealer.unseal(row.api_server_key, place=_key_place(row.name)) if row.api_server_key else ""


def locked_in(connection: sa.Connection, name: MachineName) -> sa.Row[Any] | None:
    """A spare machine's row, locked to the transaction's end; ``None`` where there is none."""
    query = sa.select(spare_machines).where(spare_machines.c.name == name).with_for_update()
    return connection.execute(query).one_or_none()


def spare_of(row: sa.Row[Any]) -> Spare:
    """The spare machine of a row."""
    return Spare(
        name=MachineName(row.name),
        purpose=Purpose(row.purpose),
        instance_id=InstanceId(row.instance_id) if row.instance_id else None,
        cell=CellName(row.cell),
        plan=Plan(row.plan),
        server_type=row.server_type,
        region=row.region,
        image_id=ImageId(row.image_id) if row.image_id else None,
        machine_id=MachineId(row.machine_id) if row.machine_id else None,
        wanted=row.wanted,
        status=SpareStatus(row.status),
        epoch=row.epoch,
        created_at=row.created_at,
        ready_at=row.ready_at,
    )


def _key_place(name: str) -> str:
    return place_of("spare_machines", "api_server_key", name)
