"""A change of one instance before it is opened: its steps, downtime, costs and losses. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Any, Protocol

from hermesops.agents.cells.cost.bill import Bill, PriceList, bill_of
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.preview.effects import NEW_MACHINE, SeenState
from hermesops.agents.instances.steps.personalise import Personalise
from hermesops.agents.instances.steps.stop_and_backup import BackUp
from hermesops.agents.instances.workflows.relocate import RelocationState
from hermesops.errors import BrokenInvariantError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import CellName
from hermesops.model.operation import Done, Operation, OperationStep, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import RelocateIntent, TerminateIntent
from hermesops.store.operations.kinds.copies import RestoreIntent

_MOST_STEPS = 60
"""Steps after which a preview gives up; no workflow has half as many."""

_MACHINE = re.compile(rf"hermes-[a-z0-9]+-[a-z0-9-]+-[0-9a-f]{{12}}|\b{NEW_MACHINE}\b")
_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f-]+)?\b|\b[0-9a-f]{8,}\b|\bnew\b")


class Decider(Protocol):
    """The pure parts of a workflow."""

    def decide(self, observation: Any, /) -> object:  # noqa: ANN401 - the state of any workflow
        """Choose the next step, or the outcome."""

    def describe(self, step: Any, observation: Any, /) -> str:  # noqa: ANN401 - the step of any workflow
        """Describe the step in a few words."""


@dataclass(frozen=True)
class PlannedStep:
    """A step that would run.

    Attributes:
        name: Class of the step.
        words: Its narration.
        is_down: Whether the agent is down during it, at least in part.
        usual_s: Seconds that the same step took before; ``None`` if unknown.
    """

    name: str
    words: str
    is_down: bool
    usual_s: float | None = None


@dataclass(frozen=True)
class Foreseen:
    """The steps to the end of an operation, and the observations before and after them."""

    steps: tuple[PlannedStep, ...]
    first: SeenState
    last: SeenState


@dataclass(frozen=True)
class Loss:
    """Changes that an agent loses.

    Attributes:
        since: Time of the state that remains; ``None`` if none does.
        is_saved: Whether a backup of the lost state is made first.
    """

    since: datetime | None
    is_saved: bool


@dataclass(frozen=True)
class Size:
    """Region and server type of a rented machine, which determine its price."""

    region: str
    server_type: str


@dataclass(frozen=True)
class Facts:
    """Facts of registry and vendor for a preview.

    Attributes:
        usual: Seconds of each step, by its key.
        regions: By cell, with the cell that the operation would open.
        newest: The instance's newest backup.
        kept_days: Days for which a previous machine is kept.
        continues: Whether the operation is unfinished in the registry.
    """

    usual: Mapping[str, float]
    prices: PriceList
    regions: Mapping[CellName, str]
    newest: Backup | None
    kept_days: float
    continues: bool


@dataclass(frozen=True)
class ChangePreview:
    """An operation that was not opened.

    Attributes:
        operation: Unwritten; an unfinished one of the registry where the request would continue that.
        continues: Whether the operation is unfinished in the registry.
        was_up, is_up: Whether the agent runs before and after the change.
        down_s: Seconds that the agent is down during the steps; ``None`` if unknown.
        before, after: Monthly costs of the agent's machine.
        kept: Monthly costs of the previous machine, for ``kept_days``.
        loss: ``None`` if nothing is lost.
        ends_at: When the agent is terminated after its days of grace; ``None`` without them.
    """

    operation: Operation
    continues: bool
    instance: Instance
    steps: tuple[PlannedStep, ...]
    was_up: bool
    is_up: bool
    down_s: float | None
    before: Bill
    after: Bill
    kept: Bill
    kept_days: float
    loss: Loss | None
    ends_at: datetime | None = None


def foresee(work: Decider, state: SeenState, after: Callable[[object, Any], Any]) -> Foreseen:
    """Let a workflow decide step after step, each on the expected effect of the one before.

    Raises:
        HermesError: The workflow refuses the change, as it would once the operation was opened.
    """
    steps: list[PlannedStep] = []
    now = state
    for _ in range(_MOST_STEPS):
        match work.decide(now):
            case Done():
                return Foreseen(tuple(steps), state, now)
            case Refused(error=error):
                raise error
            case step:
                words, then = work.describe(step, now), after(step, now)
                is_down = _may_restart(step) or not (is_up(now) and is_up(then))
                steps.append(PlannedStep(type(step).__name__, words, is_down=is_down))
                now = then
    raise BrokenInvariantError(f"the steps do not end: {steps[-1].words}")


def _may_restart(step: object) -> bool:
    """Whether a step restarts the gateway where files that it reads have changed."""
    return isinstance(step, Personalise)


def observation_of(state: SeenState) -> Observation:
    """The instance, machine and gateway in the state of a workflow."""
    return state if isinstance(state, Observation) else state.observation


def is_up(state: SeenState) -> bool:
    """Whether the gateway answers and the node is not fenced."""
    now = observation_of(state)
    return now.gateway is GatewayHealth.OK and now.node is not None and not now.node.fenced


def step_key(words: str, title: str) -> str:
    """The narration of a step without the names in it: equal for the same step of another agent."""
    words = re.sub(rf"(?<![\w-]){re.escape(title)}(?![\w-])", "USER", words)
    return _ID.sub("ID", _MACHINE.sub("MACHINE", words))


def usual_seconds(past: Iterable[tuple[str, datetime, Iterable[OperationStep]]]) -> Mapping[str, float]:
    """The median duration of each step in past operations, by its key.

    A step that failed, or that another process continued, does not count.

    Args:
        past: Title of the instance, end, and steps of each operation.
    """
    durations: dict[str, list[float]] = {}
    for title, ended_at, steps in past:
        rows = tuple(steps)
        ends = [*rows[1:], None] if rows else []  # an operation that found nothing to do has none
        for row, next_row in zip(rows, ends, strict=True):
            if row.problem or (next_row and next_row.holder != row.holder):
                continue
            until = next_row.at if next_row else ended_at
            durations.setdefault(step_key(row.step, title), []).append((until - row.at).total_seconds())
    return {key: median(seconds) for key, seconds in durations.items()}


def preview_of(operation: Operation, intent: Intent, foreseen: Foreseen, facts: Facts) -> ChangePreview:
    """The preview of an operation with these steps."""
    instance = observation_of(foreseen.first).instance
    steps = tuple(
        replace(step, usual_s=facts.usual.get(step_key(step.words, instance.title))) for step in foreseen.steps
    )
    own, previous = sizes_of(foreseen.last, facts.regions)
    return ChangePreview(
        operation,
        continues=facts.continues,
        instance=instance,
        steps=steps,
        was_up=is_up(foreseen.first),
        is_up=is_up(foreseen.last),
        down_s=total_seconds(step for step in steps if step.is_down),
        before=bill_of(sizes_of(foreseen.first, facts.regions)[0], facts.prices),
        after=bill_of(own, facts.prices),
        kept=bill_of(previous, facts.prices),
        kept_days=facts.kept_days,
        loss=_loss(intent, foreseen, facts.newest),
        ends_at=observation_of(foreseen.last).instance.grace_until if foreseen.steps else None,
    )


def total_seconds(steps: Iterable[PlannedStep]) -> float | None:
    """Seconds that these steps usually take together; ``None`` if one of them is unknown."""
    total = 0.0
    for step in steps:
        if step.usual_s is None:
            return None
        total += step.usual_s
    return total


def sizes_of(state: SeenState, regions: Mapping[CellName, str]) -> tuple[list[Size], list[Size]]:
    """The rented machine of the agent, and its previous one; an empty list for none."""
    now = observation_of(state)
    machine, cell = now.existing_machine, now.instance.cell
    own = [Size(regions.get(cell, ""), machine.server_type)] if machine else []
    previous = state.previous if isinstance(state, RelocationState) and state.previous_in_stack else None
    return own, [Size(previous.region, previous.server_type)] if previous else []


def _loss(intent: Intent, foreseen: Foreseen, newest: Backup | None) -> Loss | None:
    instance = observation_of(foreseen.first).instance
    backs_up = any(step.name == BackUp.__name__ for step in foreseen.steps)
    match intent:
        case TerminateIntent(keeps_backup=False) if instance.status is not InstanceStatus.PROVISIONING:
            return Loss(newest.at if newest else None, is_saved=False)
        case RestoreIntent() | RelocateIntent(snapshot=str()) if (source := _source(foreseen)) is not None:
            is_unchanged = instance.status is InstanceStatus.SUSPENDED and newest is not None and source.id == newest.id
            return None if is_unchanged else Loss(source.at, is_saved=backs_up)
    return None


def _source(foreseen: Foreseen) -> Backup | None:
    """The backup that replaces the state; ``None`` where the state stays."""
    return getattr(foreseen.first, "source", None)
