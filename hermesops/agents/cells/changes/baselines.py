"""Baselines of an environment's programs: taken where the registry is reached, compared where nothing is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hermesops.agents.cells.stack.state import stack_of
from hermesops.infra.engine.options import Program
from hermesops.infra.provider.resource_types import IMAGE, MACHINE
from hermesops.infra.stacks.baseline import Baseline, CellBaseline, kinds_of
from hermesops.infra.stacks.dry_run import Answers, registered_by
from hermesops.infra.stacks.fleet import CellPrograms
from hermesops.infra.stacks.platform.aws.answers import AwsAnswers
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.infra.stacks.registered import Difference, Effect, Registered, differences
from hermesops.model.fleet.cell import PLATFORM, CellSpec
from hermesops.model.stack import StackRef

_OURS = {kind.token: kind for kind in (MACHINE, IMAGE)}


@dataclass(frozen=True)
class StackDifferences:
    """Differences between the resources of a stack's program now and those of the baseline."""

    stack: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Baselines:
    """Takes and compares baselines.

    Attributes:
        specs: Reads the ordered machines of all cells.
        platform: The platform's program; ``None`` for an environment without a platform on AWS.
    """

    environment: str
    specs: Callable[[], Iterable[CellSpec]]
    programs: CellPrograms
    platform: Callable[[], Program | None]

    def take(self) -> Baseline:
        """Record the resources that programs register with this code, these settings and present rows; calls no vendor.

        Raises:
            UnavailableError: The registry does not answer.
        """
        cells = tuple(self._with_resources(CellBaseline(spec.name, kinds_of(spec))) for spec in self.specs())
        return Baseline(self.environment, datetime.now(UTC), self._platform(), cells)

    def compare(self, baseline: Baseline) -> tuple[StackDifferences, ...]:
        """Compare a baseline with the resources that programs register now; reads no registry and no secret."""
        compared = []
        before, after = baseline.platform, self._platform()
        if before is not None or after is not None:
            compared.append(StackDifferences(PLATFORM, differences(before or (), after or (), effect_of)))
        return (*compared, *map(self._compare_cell, baseline.cells))

    def _compare_cell(self, before: CellBaseline) -> StackDifferences:
        labels = before.labels(self.environment)

        def named(difference: Difference) -> Difference:
            label = labels.get(difference.resource.name)
            return replace(difference, resource=replace(difference.resource, name=label)) if label else difference

        compared = differences(before.resources, self._with_resources(before).resources, effect_of)
        return StackDifferences(before.name, tuple(map(named, compared)))

    def _with_resources(self, cell: CellBaseline) -> CellBaseline:
        program = self.programs.program(cell.spec(self.environment), frozenset())
        return replace(cell, resources=registered_by(program, stack_of(cell.name), Answers()))

    def _platform(self) -> tuple[Registered, ...] | None:
        program = self.platform()
        if program is None:
            return None

        return registered_by(program, StackRef(PROJECT, self.environment), AwsAnswers())


def effect_of(before: Registered, after: Registered) -> Effect:
    """The engine's action for a change; for AWS resources only AWS's plugin knows whether an update is enough. Pure."""
    ours = _OURS.get(after.type)
    if ours is None or before.inputs == after.inputs:
        return Effect.UPDATE
    difference = ours.compare(before.inputs, after.inputs)
    if not difference.changes:
        return Effect.LATER
    return Effect.REPLACE if difference.replaces else Effect.UPDATE
