"""A cell: at most some 40 machines in one Pulumi stack, the blast radius of infrastructure changes."""

import re
from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import UsageError
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.model.plan import Plan

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class CellMachine:
    """One machine a cell should have.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        owner: The instance it belongs to; ``None`` in the warm pool.
        plan: Whose data it shall have room for; ``None`` where nobody says so.
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
    """A cell's row, and how full it is.

    Attributes:
        only_plan: The one plan it takes; ``None`` takes every plan.
        machines: How many it holds, those on their way out included: their names are still in its stack.
        brought_at: When its stack was last brought to its rows; ``None`` before the first time.
    """

    name: CellName
    region: str
    only_plan: Plan | None
    machines: int
    created_at: datetime
    brought_at: datetime | None = None


@dataclass(frozen=True)
class Placement:
    """Where a new machine goes; the cell is opened with these values when there is none of that name."""

    cell: CellName
    region: str
    only_plan: Plan | None


def parse_cell(text: str) -> CellName:
    """The cell meant by what an operator typed; whether there is one is another question.

    Raises:
        UsageError: No cell can have that name: it is part of machines' names and of files'.
    """
    if _NAME.fullmatch(text):
        return CellName(text)
    raise UsageError(
        f"{text!r} is no name of a cell: lower-case letters, digits and - only", hint="hermesops cell list"
    )
