"""A cell: at most some 40 machines in one Pulumi stack, the blast radius of infrastructure changes."""

import re
from dataclasses import dataclass

from hermesops.errors import UsageError
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class CellMachine:
    """One machine a cell should have.

    Attributes:
        image_id: What it boots from; ``None`` is the vendor's own base.
        owner: The instance it belongs to; ``None`` in the warm pool.
    """

    name: MachineName
    server_type: str
    region: str
    image_id: ImageId | None
    owner: InstanceId | None


@dataclass(frozen=True)
class CellSpec:
    """Desired state of a cell, built from registry rows only."""

    name: CellName
    machines: tuple[CellMachine, ...]


def parse_cell(text: str) -> CellName:
    """The cell meant by what an operator typed; whether there is one is another question.

    Raises:
        UsageError: No cell can have that name: it is part of machines' names and of files'.
    """
    if _NAME.fullmatch(text):
        return CellName(text)
    raise UsageError(
        f"{text!r} is no name of a cell: lower-case letters, digits and - only", hint="hermesops stack list"
    )
