"""A baseline: resources that main's programs register for an environment, without its name, ids or secrets. Pure.

Main's pipeline publishes it. Jobs of pull requests, which have no credentials, compare their own programs to it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from hermesops.errors import Hint, UsageError
from hermesops.infra.stacks.registered import Registered
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, ImageId, MachineName
from hermesops.model.plan import Plan

KIND, VERSION = "hermesops-baseline", 1

LARGEST = 64 << 20
"""Bytes of a file that are read: more than 1,000 cells have."""

CANNOT_KNOW = (
    "drift: what was changed at JustAVPS or AWS by somebody else",
    "rows of the registry that were written after the baseline, and what was merged and is not applied yet",
    "whether AWS changes a resource in place or replaces it",
    "ids, addresses and ARNs that JustAVPS and AWS give",
)
"""What a comparison leaves out; `apply` shows it before anything is signed."""

_HINT = Hint(("stack", "baseline", "--save", "FILE"), "makes one, where the registry is reached")


@dataclass(frozen=True)
class MachineKind:
    """Machines of a cell that its program cannot tell apart but by their names.

    Attributes:
        image: Number of the image in the cell, 1 for the first; ``None`` for the vendor's base.
        count: How many there are.
    """

    server_type: str
    region: str
    image: int | None
    plan: Plan | None
    count: int

    def __str__(self) -> str:
        """Describe as ``3 x starter in hel1, light``."""
        plan = f", {self.plan.value}" if self.plan else ""
        return f"{self.count} x {self.server_type} in {self.region}{plan}"


@dataclass(frozen=True)
class CellBaseline:
    """A cell's machines, and the resources that its program registers."""

    name: CellName
    machines: tuple[MachineKind, ...]
    resources: tuple[Registered, ...] = ()

    def spec(self, environment: str) -> CellSpec:
        """A cell that stands for it: one machine of each kind, with names and images that do not exist."""
        return CellSpec(self.name, tuple(self._machine(environment, number) for number in range(len(self.machines))))

    def _machine(self, environment: str, number: int) -> CellMachine:
        kind = self.machines[number]
        image = None if kind.image is None else ImageId(f"image-{kind.image}")
        return CellMachine(
            self.stand_in(environment, number), kind.server_type, kind.region, image, owner=None, plan=kind.plan
        )

    def stand_in(self, environment: str, number: int) -> MachineName:
        """Name of the machine that stands for a kind."""
        return MachineName(f"hermes-{environment}-{self.name}-{number:012x}")

    def labels(self, environment: str) -> Mapping[str, str]:
        """The kinds in words, by the names of the machines that stand for them."""
        return {self.stand_in(environment, number): str(kind) for number, kind in enumerate(self.machines)}


@dataclass(frozen=True)
class Baseline:
    """Resources that programs register in an environment.

    Attributes:
        made_at: Time of the baseline, UTC.
        platform: Resources of the platform on AWS; ``None`` for an environment without one.
    """

    environment: str
    made_at: datetime
    platform: tuple[Registered, ...] | None
    cells: tuple[CellBaseline, ...]


def kinds_of(spec: CellSpec) -> tuple[MachineKind, ...]:
    """The machines of a cell without names, owners and ids of images."""
    images = {
        image: number for number, image in enumerate(sorted({m.image_id for m in spec.machines if m.image_id}), 1)
    }
    counted = Counter(
        (m.server_type, m.region, images[m.image_id] if m.image_id else None, m.plan) for m in spec.machines
    )
    ordered = sorted(counted.items(), key=lambda item: tuple(map(str, item[0])))
    return tuple(MachineKind(*kind, count) for kind, count in ordered)


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class _File:
    kind: str
    version: int
    baseline: Baseline


_FORMAT: TypeAdapter[Any] = TypeAdapter(_File)


def to_text(baseline: Baseline) -> str:
    """Return the JSON text of a baseline's file."""
    return bytes(_FORMAT.dump_json(_File(KIND, VERSION, baseline), indent=1)).decode() + "\n"


def of_text(text: bytes, file: str, *, environment: str) -> Baseline:
    """The baseline in a file.

    Args:
        file: Its name, for errors.
        environment: Whose it has to be.

    Raises:
        UsageError: The file holds something else, or the baseline of another environment.
    """
    try:
        content: _File = _FORMAT.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file} is no baseline: {where}: {first['msg']}", hint=_HINT) from None
    if (content.kind, content.version) != (KIND, VERSION):
        raise UsageError(f"{file} is no baseline of version {VERSION}", hint=_HINT)
    if content.baseline.environment != environment:
        raise UsageError(
            f"{file} is the baseline of environment {content.baseline.environment}, not of {environment}", hint=_HINT
        )
    return content.baseline
