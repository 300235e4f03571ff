"""Finds rollouts and reads their records, for every face."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.events import (
    CommandGiven,
    Event,
    Recorded,
    RolloutStarted,
    StateChanged,
    from_row,
    instances_of,
)
from hermesops.agents.rollout.reports.durations import Durations, durations_of
from hermesops.agents.rollout.reports.progress import RolloutProgress, progress_of
from hermesops.agents.rollout.reports.replay import Replayed, replay

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.model.rollout.records import Rollout, RolloutId, RolloutTarget
    from hermesops.model.rollout.spec import Gates
    from hermesops.store.registry import Registry


_MEASURED = 3
"""Earlier rollouts whose durations are read."""

StateChange = RolloutStarted | StateChanged | CommandGiven
"""An event that ``changes`` lists."""


@dataclass(frozen=True)
class Rollouts:
    """Rollouts of one environment, unfinished and past, as the registry has them."""

    registry: "Registry"

    def find(self, text: str) -> "Rollout":
        """A rollout by an unambiguous beginning of its id; for an empty text the newest unfinished, else the newest.

        Raises:
            UsageError: There is none, or more than one.
        """
        return self.registry.rollouts.find(text)

    def get(self, rollout_id: "RolloutId") -> "Rollout":
        """One rollout.

        Raises:
            UsageError: There is none of that id.
        """
        return self.registry.rollouts.get(rollout_id)

    def list(self, *, unfinished: bool = False) -> "tuple[Rollout, ...]":
        """List rollouts, the newest first; with ``unfinished`` only those that have not ended."""
        return self.registry.rollouts.list(unfinished=unfinished)

    def start(self, rollout_id: "RolloutId") -> RolloutStarted:
        """The first event of a rollout: the request and its author."""
        events = (from_row(row).event for row in self.registry.rollout_events.latest(rollout_id).values())
        return next(event for event in events if isinstance(event, RolloutStarted))

    def targets(self, rollout_id: "RolloutId") -> "tuple[RolloutTarget, ...]":
        """The targets of a rollout in their order."""
        return self.registry.rollout_targets.list(rollout_id)

    def records(self, rollout_id: "RolloutId") -> Records:
        """A rollout with its targets and the latest event of each kind; freezes are left out.

        Raises:
            UsageError: There is none of that id.
        """
        latest = self.registry.rollout_events.latest(rollout_id)
        return Records(self.get(rollout_id), self.targets(rollout_id), tuple(map(from_row, latest.values())))

    def events(self, rollout_id: "RolloutId", *, user: str = "") -> "tuple[Recorded[Event], ...]":
        """Events of a rollout, the oldest first.

        Args:
            user: Only events about the instance of this user, by any of its names; empty for all.

        Raises:
            UsageError: There is no such user.
        """
        events = tuple(map(from_row, self.registry.rollout_events.list(rollout_id)))
        if not user:
            return events
        instance_id = self.registry.instances.find(user).id
        return tuple(event for event in events if instance_id in instances_of(event.event))

    def changes(self, rollout_id: "RolloutId") -> "tuple[tuple[datetime, StateChange], ...]":
        """The begin of a rollout, each change of its state and each command, with their times; the oldest first."""
        events = self.events(rollout_id)
        return tuple((event.at, event.event) for event in events if isinstance(event.event, StateChange))

    def durations(self, rollout: "Rollout") -> Durations:
        """Durations of the last rollouts of the same action that are done."""
        rows = (row for row in self.list() if row.state.value == "done" and row.action is rollout.action)
        earlier = [row for row in rows if row.id != rollout.id][:_MEASURED]
        return durations_of((row, self.targets(row.id)) for row in earlier)

    def progress(self, records: Records) -> RolloutProgress:
        """The figures of a rollout now."""
        return progress_of(records, self.registry.now())

    def replay(self, rollout_id: "RolloutId", gates: "Gates") -> Replayed:
        """Judge the recorded events of a rollout by other gates."""
        return replay(self.events(rollout_id), self.targets(rollout_id), gates)
