"""A cell: at most some 40 machines in one Pulumi stack, the blast radius of infrastructure changes."""

import re
from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import Hint, UsageError
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.model.plan import Plan

PLATFORM = "platform"
"""Names the platform's stack where cells are named, so no cell is called that."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class CellMachine:
    """One machine a cell should have.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        owner: Its instance; ``None`` in the warm pool.
        plan: The plan whose data must fit; ``None`` where that is unknown.
    """

    name: MachineName
    server_type: str
    region: str
    image_id: ImageId | None
    owner: InstanceId | None
    plan: Plan | None = None


@dataclass(frozen=True)
class CellSpec:
    """Desired state of a cell, built from registry rows only."""

    name: CellName
    machines: tuple[CellMachine, ...]


@dataclass(frozen=True)
class Cell:
    """A row of ``cells``, and how full the cell is.

    Attributes:
        only_plan: The one plan it takes; ``None`` takes every plan.
        machines: How many it has, including those marked for deletion, whose names are still in its stack.
        applied_at: When its stack was last applied; ``None`` before the first time.
    """

    name: CellName
    region: str
    only_plan: Plan | None
    machines: int
    created_at: datetime
    applied_at: datetime | None = None


@dataclass(frozen=True)
class Placement:
    """The cell of a new machine, and the values to open the cell with if it is new."""

    cell: CellName
    region: str
    only_plan: Plan | None


def parse_cell(text: str) -> CellName:
    """The name of a cell as an operator typed it; the cell need not exist.

    Raises:
        UsageError: No cell can have that name, which is part of the names of machines and files.
    """
    if text == PLATFORM:
        raise UsageError(
            f"no cell is called {PLATFORM}: that is the stack of the shared platform", hint=Hint(("cell", "list"))
        )
    if _NAME.fullmatch(text):
        return CellName(text)
    raise UsageError(
        f"{text!r} is no name of a cell: lower-case letters, digits and - only", hint=Hint(("cell", "list"))
    )
