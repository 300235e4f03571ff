"""All kinds of operations, by name, and the note for one that is abandoned.

``hermesops.app.handlers`` maps kinds to their reconcilers.
"""

from collections.abc import Mapping

from hermesops.model.operation import Operation, OperationKind
from hermesops.store.operations.intent import AbandonNote, Intent
from hermesops.store.operations.kinds.agents import (
    ConfigureIntent,
    ProvisionIntent,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import BackupIntent, DrillIntent, RestoreIntent, SnapshotIntent
from hermesops.store.operations.kinds.fleet import JobRunIntent, PoolFillIntent, RolloutIntent, StackUpIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent

KINDS: Mapping[OperationKind, type[Intent]] = {
    intent.kind: intent
    for intent in (
        ProvisionIntent,
        TerminateIntent,
        RestartIntent,
        RebootIntent,
        ConfigureIntent,
        SuspendIntent,
        ResumeIntent,
        ResizeIntent,
        RelocateIntent,
        ScheduleTerminationIntent,
        BackupIntent,
        RestoreIntent,
        SnapshotIntent,
        DrillIntent,
        StackUpIntent,
        PoolFillIntent,
        JobRunIntent,
        RolloutIntent,
    )
}
"""What each kind is to do."""


STOPS_GATEWAY = frozenset(
    kind for kind, intent in KINDS.items() if issubclass(intent, InstanceIntent) and intent.stops_gateway
)
"""Kinds during which the gateway is stopped."""


def abandon_note(operation: Operation) -> AbandonNote:
    """Return the note for an operation that is not continued. Pure."""
    note = KINDS[operation.kind].abandoned
    # A row may say less than its kind declares: the note is for people, and must not fail.
    words = {"user": "USER", "cell": "CELL", "plan": "light", "rollout": "ID", "job": "JOB", **operation.intent}
    values = {name.upper(): str(value) for name, value in words.items()}
    return AbandonNote(note.what.format_map(words), note.next.put(**values))
