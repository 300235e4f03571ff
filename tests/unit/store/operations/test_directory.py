"""The command that comes next about an operation, and what its history has."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from hermesops.errors import Hint
from hermesops.model.ids import OperationId
from hermesops.model.operation import Lease, Operation, OperationKind, OperationStatus
from hermesops.store.operations.directory import OperationDirectory, next_command
from tests.support.real.stores.registries import TurnedClock, registry_at

CLOCK = TurnedClock()
ROW = Operation(
    id=OperationId("o"),
    kind=OperationKind.PROVISION,
    subject="instance/i",
    instance_id=None,
    intent={"user": "ada", "plan": "light"},
    status=OperationStatus.RUNNING,
    step="",
    outcome="",
    created_at=CLOCK(),
    updated_at=CLOCK(),
)


def test_what_comes_next_follows_from_who_works_on_it_and_how_it_ended() -> None:
    held = Lease("instance/i", "w:1:aa", 3, 17, CLOCK())
    assert next_command(ROW, held) == Hint(("operation", "continue", "o"), "waits for w:1:aa")
    assert next_command(ROW, None) == Hint(("operation", "continue", "o"), ", or", ("worker", "--once"))
    assert not next_command(replace(ROW, status=OperationStatus.DONE), None)
    failed = next_command(replace(ROW, status=OperationStatus.FAILED), None)
    assert failed
    assert failed == next_command(replace(ROW, status=OperationStatus.ABANDONED), held)


def test_a_history_has_the_entries_since_the_operation_was_opened(tmp_path: Path) -> None:
    registry, clock = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=CLOCK), CLOCK
    registry.audit.append("command_run", "pool/cell1", why="before")
    clock.turn(timedelta(minutes=1).total_seconds())
    opened = registry.operations.open(OperationKind.POOL_FILL, "pool/cell1", intent={"cell": "cell1", "grow": True})
    registry.audit.append("command_run", "pool/cell1", why="after")
    registry.audit.append("command_run", "pool/cell2", why="of another subject")
    directory = OperationDirectory(registry)
    history = directory.history(opened.id[:6])
    assert (history.operation, history.lease) == (opened, None)
    assert next(entry.why for entry in history.audit) == "after"
    assert not {"before", "of another subject"} & {entry.why for entry in history.audit}
    assert directory.list() == (opened,)
    registry.close()
