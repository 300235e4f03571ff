"""How large the pools of cells should be, and which cells are short of machines. Pure: rows and settings decide."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.model.cell import Cell
from hermesops.model.ids import CellName, ImageId
from hermesops.model.operation import Operation
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, pool_subject
from hermesops.pool.decide import Target, is_at_rest, is_short


@dataclass(frozen=True)
class PoolSizes:
    """What settings and images say of every cell's pool.

    Attributes:
        of_plan: Machines that each cell's pool should hold.
        image_id: What new machines boot from; ``None`` when there is none, and then nothing is made or given up.
    """

    of_plan: Mapping[Plan, int]
    server_types: Mapping[Plan, str]
    image_id: ImageId | None
    cell_size: int

    def targets(self, cell: Cell) -> list[Target]:
        """What a cell's pool should hold."""
        return [
            Target(plan, size, self.server_types[plan], self.image_id)
            for plan, size in sorted(self.of_plan.items())
            if size and cell.only_plan in {None, plan}
        ]

    def short_cells(
        self, cells: Collection[Cell], spares: Sequence[Spare], fills: Sequence[Operation], now: datetime
    ) -> list[CellName]:
        """Cells whose pools are not what they should be, as far as rows tell, and that nobody fills."""
        if not any(self.of_plan.values()) and not any(one.purpose is Purpose.POOL for one in spares):
            return []
        return [
            cell.name
            for cell in cells
            if is_at_rest([one for one in fills if one.subject == pool_subject(cell.name)], now)
            and is_short(
                self.targets(cell),
                [one for one in spares if one.cell == cell.name],
                room=max(0, self.cell_size - cell.machines),
            )
        ]
