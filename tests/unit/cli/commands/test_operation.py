"""The shape of one operation with its history."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hermesops.cli import context
from hermesops.cli.commands import operation
from hermesops.cli.printing import watch
from hermesops.errors import Hint
from hermesops.model.access.audit import AuditEntry
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Lease, Operation, OperationKind, OperationStatus, OperationStep
from hermesops.store.operations.directory import OperationHistory
from hermesops.views import operations as shapes
from tests.support.fakes.parts import part

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHEN = "2026-01-02T03:04:05+00:00"
ROW = Operation(
    id=OperationId("o"),
    kind=OperationKind.PROVISION,
    subject="instance/i",
    instance_id=InstanceId("i"),
    intent={"user": "ada", "plan": "light"},
    status=OperationStatus.RUNNING,
    step="waiting for the gateway",
    outcome="",
    created_at=AT,
    updated_at=AT,
)
STEPS = (
    OperationStep(AT, "left to the workers", "", ""),
    OperationStep(AT, "waiting for the gateway", "w:1:aa", "it is not healthy after 60 s"),
)
AUDIT = (AuditEntry(7, AT, "root@vm", "operation_opened", "instance/i", "provision o", {}, {}),)
CONTINUE = Hint(("operation", "continue", "o"))
SHOWN = {
    "id": "o",
    "kind": "provision",
    "subject": "instance/i",
    "status": "running",
    "step": "waiting for the gateway",
    "outcome": "",
    "created_at": WHEN,
    "updated_at": WHEN,
    "intent": {"user": "ada", "plan": "light"},
    "lease": {"holder": "w:1:aa", "token": "3.17", "expires_at": WHEN},
    "steps": [
        {"at": WHEN, "step": "left to the workers", "holder": None, "problem": None},
        {
            "at": WHEN,
            "step": "waiting for the gateway",
            "holder": "w:1:aa",
            "problem": "it is not healthy after 60 s",
        },
    ],
    "audit": [{"at": WHEN, "who": "root@vm", "action": "operation_opened", "why": "provision o"}],
    "hint": CONTINUE,
}
LINES = """\
id          o
kind        provision
subject     instance/i
status      running
step        waiting for the gateway
outcome     -
created at  2026-01-02 03:04:05Z
updated at  2026-01-02 03:04:05Z
intent      user: ada
intent      plan: light
at it now   w:1:aa, token 3.17

steps
  2026-01-02 03:04:05Z  left to the workers  (no lease)
  2026-01-02 03:04:05Z  waiting for the gateway  (w:1:aa)
                        it is not healthy after 60 s

audit
  2026-01-02 03:04:05Z  root@vm  operation_opened  provision o

next: hermesops operation continue o
"""


def test_an_operation_with_its_history() -> None:
    lease = Lease("instance/i", "w:1:aa", 3, 17, AT)
    shown = shapes.history(OperationHistory(ROW, STEPS, lease, AUDIT, CONTINUE))
    assert shown == SHOWN
    assert "\n".join(operation.lines(shown)) + "\n" == LINES


def test_an_operation_that_nobody_is_at() -> None:
    shown = shapes.history(OperationHistory(ROW, (), None, (), Hint()))
    assert (shown["lease"], shown["steps"], shown["audit"], shown["hint"]) == (None, [], [], None)
    lines = operation.lines(shown)
    assert "at it now   nobody" in lines
    assert lines[lines.index("steps") + 1] == "  none"


def test_what_was_asked_for_is_in_words() -> None:
    shown = shapes.history(OperationHistory(replace(ROW, intent={"grow": True}), STEPS, None, AUDIT, Hint()))
    assert "intent      grow: yes" in operation.lines(shown)


def test_a_watched_list_says_what_became_of_each_operation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reads = iter([[ROW], [replace(ROW, step="assigning the machine to ada")], []])
    directory = part(list=lambda **_: next(reads))
    monkeypatch.setattr(context, "compose", lambda: part(operation_directory=directory))
    pauses = iter([None, None])

    def pause(_: float) -> None:
        if next(pauses, "over"):
            raise KeyboardInterrupt

    monkeypatch.setattr(watch, "pause_blocking", pause)
    operation.list_(watch=True)
    head, row, changed, removed = capsys.readouterr().out.splitlines()
    assert head.startswith("ID  KIND       ABOUT")
    assert row.startswith("o   provision  ada")
    assert changed.endswith("Z  o: step waiting for the gateway -> assigning the machine to ada")
    assert removed.endswith("Z  o: removed")
