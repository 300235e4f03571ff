import pytest
from pulumi.automation.events import EngineEvent

from hermesops.engine.cli import refuse_unnamed
from hermesops.engine.cli_events import Told, changes_of, error_of
from hermesops.engine.interface import Progress
from hermesops.errors import (
    PartlyDoneError,
    RefusedError,
    UnknownOutcomeError,
)
from hermesops.model.stack import ChangeKind, Preview, StackRef

REF = StackRef("rec", "dev")
MACHINE = "urn:pulumi:dev::rec::justavps:index:Machine::m"
DEFAULT = "urn:pulumi:dev::rec::pulumi:providers:justavps::default"


def step(kind: str, op: str, urn: str = MACHINE) -> EngineEvent:
    resource_type = urn.split("::")[2]
    state = {
        "type": resource_type,
        "urn": urn,
        "id": "machine-1",
        "parent": "",
        "inputs": {},
        "outputs": {},
        "provider": "",
    }
    metadata = {
        "op": op,
        "urn": urn,
        "type": resource_type,
        "old": state,
        "new": state,
        "provider": "",
        "diffs": ["size"],
    }
    more = {"status": 1, "steps": 1} if kind == "resOpFailedEvent" else {}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 0, kind: {"metadata": metadata, **more}})


def line(message: str, urn: str = MACHINE, severity: str = "error") -> EngineEvent:
    event = {"urn": urn, "message": message, "color": "never", "severity": severity}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 0, "diagnosticEvent": event})


def told(*events: EngineEvent) -> Told:
    heard = Told()
    for event in events:
        heard.hear(event)
    return heard


def test_steps_become_changes() -> None:
    heard = told(
        step("resourcePreEvent", "same"),
        step("resourcePreEvent", "create", DEFAULT),
        step("resourcePreEvent", "update"),
        step("resOutputsEvent", "update"),
        step("resourcePreEvent", "create-replacement"),
        step("resourcePreEvent", "replace"),
    )
    changes = changes_of(heard)
    assert [change.kind for change in changes] == [ChangeKind.UPDATE, ChangeKind.REPLACE]
    assert (changes[0].name, changes[0].id, changes[0].properties) == ("m", "machine-1", ("size",))


def test_what_failed_did_not_change() -> None:
    heard = told(step("resourcePreEvent", "create"), step("resOpFailedEvent", "create"), line("no capacity"))
    assert changes_of(heard) == ()
    error = error_of(heard, "up", REF, "error: update failed")
    assert isinstance(error, RefusedError)
    assert error.message == "up of stack dev failed: m: no capacity"


def test_errors_are_classed_by_what_to_do() -> None:
    other = MACHINE + "2"
    heard = told(
        step("resourcePreEvent", "create", other), step("resOutputsEvent", "create", other), line("no capacity")
    )
    assert isinstance(error_of(heard, "up", REF, ""), PartlyDoneError)
    died = told(line("error reading from server: EOF"))
    assert isinstance(error_of(died, "up", REF, ""), UnknownOutcomeError)
    locked = "error: the stack is currently locked by 1 lock(s). Either wait"
    assert "currently locked" in error_of(told(), "up", REF, f"x\n{locked}\ny").message
    assert "incorrect passphrase" in error_of(told(), "preview", REF, "error: incorrect passphrase").message


def test_narration_names_no_default_provider() -> None:
    lines: list[Progress] = []
    heard = Told(lines.append)
    for event in (
        step("resourcePreEvent", "create", DEFAULT),
        step("resourcePreEvent", "create"),
        line("w", severity="warning"),
    ):
        heard.hear(event)
    assert lines == [
        Progress("begun", "create", "justavps:index:Machine", "m"),
        Progress("warning", name="m", message="w"),
    ]


def test_unnamed_deletions_are_refused() -> None:
    preview = Preview(REF, changes_of(told(step("resourcePreEvent", "delete"))))
    refuse_unnamed(preview, lambda urn: urn == MACHINE)
    with pytest.raises(RefusedError, match=r"m \(justavps:index:Machine\)"):
        refuse_unnamed(preview, lambda _urn: False)
