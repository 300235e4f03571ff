"""A new instance is put into a cell, by any number of computers at once, without one cell more than it may hold.

It must not know how a cell is chosen; that is ``hermesops.placement``.
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from hermesops.errors import UnavailableError
from hermesops.model.cell import Cell, Placement
from hermesops.model.ids import ImageId
from hermesops.model.instance import Instance
from hermesops.model.plan import Plan
from hermesops.model.user import User
from hermesops.registry.cells import CellRows
from hermesops.registry.instances import InstanceRows
from hermesops.registry.schema import cells

_ATTEMPTS = 100
"""Each one that fails found a cell filled by somebody else in the meantime."""

Choose = Callable[[Sequence[Cell]], Placement]
"""Chooses for a new machine among the cells it is shown."""


class PlacingRows(InstanceRows, CellRows):
    """Instances into cells."""

    def place_instance(
        self, user: User, *, plan: Plan, server_type: str, image_id: ImageId | None, choose: Choose
    ) -> Instance:
        """Write the row of a user's instance into the cell that ``choose`` names, or find the one that lives.

        The cell's row is locked from the choice, which is repeated on what that cell then holds, to the commit: what
        ``choose`` promises of a cell's room is true when the row is written. The cell is opened where it is new.

        Args:
            user: Who has a row (``resolve_user(…, create=True)``).
            plan: What they bought.
            server_type: Of the machine.
            image_id: What it boots from, ``None`` the vendor's base.
            choose: Pure; asked with all cells, and again with the chosen one alone.

        Raises:
            UnavailableError: Others were faster a hundred times; nothing was written.
        """
        for _ in range(_ATTEMPTS):
            place = choose(self.list_cells())
            with self._database.writing() as connection:
                self._open_cell(connection, place)
                if choose(self._locked_cell(connection, place)) == place:
                    return self._write_provisioning(
                        connection,
                        user,
                        plan=plan,
                        cell=place.cell,
                        server_type=server_type,
                        region=place.region,
                        image_id=image_id,
                    )
        raise UnavailableError(f"found no room for {user.alias or user.id}: others took it {_ATTEMPTS} times")

    def _locked_cell(self, connection: sa.Connection, place: Placement) -> Sequence[Cell]:
        is_it = cells.c.name == place.cell
        connection.execute(sa.select(cells.c.name).where(is_it).with_for_update())
        return self._cells(connection, is_it)
