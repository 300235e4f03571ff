import pytest
from pulumi.automation.events import EngineEvent

from hermesops.errors import (
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
)
from hermesops.infra.engine.cli import refuse_unnamed
from hermesops.infra.engine.cli_events import CliEvents, changes_of, error_of
from hermesops.infra.engine.options import Progress
from hermesops.model.stack import ChangeKind, Preview, StackRef
from tests.support.engine.cli_events import DEFAULT, MACHINE, line, step
from tests.support.suite.cases import each_case

REF = StackRef("rec", "dev")


def told(*events: EngineEvent) -> CliEvents:
    heard = CliEvents()
    for event in events:
        heard.take(event)
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
    failed = step("resOpFailedEvent", "create", thing_id="")
    heard = told(step("resourcePreEvent", "create"), failed, line("no capacity"))
    assert changes_of(heard) == ()
    error = error_of(heard, "up", REF, "error: update failed")
    assert isinstance(error, RefusedError)
    assert error.message == "up of stack dev failed: m: no capacity"


@pytest.mark.parametrize("op", ["create", "create-replacement"])
def test_what_failed_with_an_id_is_half_made(op: str) -> None:
    """Recorded: create_partial, step 1; a create that made nothing fails without one."""
    heard = told(step("resourcePreEvent", op), step("resOpFailedEvent", op), line("did not become ready"))
    error = error_of(heard, "up", REF, "error: update failed")
    assert isinstance(error, PartlyDoneError)
    assert "partly made" in str(error.hint)
    heard = told(step("resourcePreEvent", "update"), step("resOpFailedEvent", "update"), line("no capacity"))
    assert isinstance(error_of(heard, "up", REF, ""), RefusedError)


def test_errors_are_classed_by_what_to_do() -> None:
    other = MACHINE + "2"
    heard = told(
        step("resourcePreEvent", "create", other), step("resOutputsEvent", "create", other), line("no capacity")
    )
    assert isinstance(error_of(heard, "up", REF, ""), PartlyDoneError)
    died = told(line("error reading from server: EOF"))
    assert isinstance(error_of(died, "up", REF, ""), UnknownOutcomeError)
    locked = "error: the stack is currently locked by 1 lock(s). Either wait"
    held = error_of(told(), "up", REF, f" code: 255\n stdout: \n stderr: {locked}\ny")
    assert isinstance(held, UnavailableError)
    assert held.message == "stack dev: the stack is currently locked by 1 lock(s). Either wait"
    assert "incorrect passphrase" in error_of(told(), "preview", REF, "error: incorrect passphrase").message


@each_case(
    ("what", "kind"),
    [
        ("up", UnknownOutcomeError),
        ("destroy", UnknownOutcomeError),
        ("refresh", UnknownOutcomeError),
        ("import", UnknownOutcomeError),
        ("preview", UnavailableError),
    ],
)
def test_a_killed_cli_is_told_by_its_signal(what: str, kind: type[Exception]) -> None:
    """As the Automation API says it of a command whose ``returncode`` is negative."""
    heard = told(step("resourcePreEvent", "create"))
    error = error_of(heard, what, REF, "\n code: -9\n stdout: Updating (dev):\n stderr: ")
    assert type(error) is kind
    assert error.message == f"{what} of stack dev: the pulumi CLI was killed by SIGKILL"


def test_a_signal_in_what_a_command_printed_is_none_of_its_own() -> None:
    error = error_of(told(), "up", REF, "\n code: 1\n stdout: code: -9\n stderr: ")
    assert isinstance(error, RefusedError)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("\n code: 255\n stdout: \n stderr: ", "the CLI printed no message"),
        ("\n code: 255\n stdout: Updating\n stderr: error: no such file\n", "no such file"),
    ],
)
def test_the_last_words_of_a_failed_command_are_its_reason(output: str, message: str) -> None:
    assert error_of(told(), "up", REF, output).message == f"up of stack dev failed: {message}"


def test_what_a_program_raised_is_told_without_its_traceback() -> None:
    """As recorded: program_error, step 5."""
    recorded = "python inline source runtime error: division by zero\nTraceback (most recent call last):\n  File ..."
    error = error_of(told(line(recorded, urn="")), "up", REF, "")
    assert error.message == "up of stack dev failed: python inline source runtime error: division by zero"


def test_what_exists_only_in_the_state_is_not_partly_done() -> None:
    stack = "urn:pulumi:dev::rec::pulumi:pulumi:Stack::rec-dev"
    heard = told(step("resourcePreEvent", "create", stack), line("no capacity"))
    assert isinstance(error_of(heard, "up", REF, ""), RefusedError)
    heard = told(step("resourcePreEvent", "create"), line("no capacity", MACHINE + "2"))
    assert isinstance(error_of(heard, "preview", REF, ""), RefusedError)


def test_narration_names_no_default_provider() -> None:
    lines: list[Progress] = []
    heard = CliEvents(lines.append)
    for event in (
        step("resourcePreEvent", "create", DEFAULT),
        step("resourcePreEvent", "create"),
        line("w", severity="warning"),
        line("using pulumi-resource-justavps from $PATH at /bin\n", urn="", severity="warning"),
    ):
        heard.take(event)
    assert lines == [
        Progress("begun", "create", "justavps:index:Machine", "m"),
        Progress("warning", name="m", message="w"),
    ]


def test_the_first_event_alone_is_announced() -> None:
    heard, firsts = CliEvents(), list[int]()
    heard.at_first = lambda: firsts.append(len(heard.errors))
    heard.take(line("one"))
    heard.take(line("two"))
    assert firsts == [0]


def test_unnamed_deletions_are_refused() -> None:
    preview = Preview(REF, changes_of(told(step("resourcePreEvent", "delete"))))
    refuse_unnamed(preview, lambda urn: urn == MACHINE)
    with pytest.raises(RefusedError, match=r"m \(justavps:index:Machine\)"):
        refuse_unnamed(preview, lambda _urn: False)
