"""What a run does, asks, skips and stops at, without any command."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest

from hermesops.errors import HaltedError, HermesError, Hint, PartlyDoneError, RefusedError, UsageError
from hermesops.observability.runbook import run as running
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import Kind, Step, parse
from hermesops.observability.runbook.run import Outcome, RunbookRun, agreed, problem_of
from tests.support.suite.cases import each_case

BOOK = parse(
    "broke",
    """# It broke

<!-- step status: read -->
```console
$ hermesops fleet status
```
<!-- step abort: decide
if: status shows halted
undo: a new rollout
-->
```console
$ hermesops rollout abort
```
<!-- step retry: decide
if: status shows halted
undo: hermesops rollout abort --reason WHY
-->
```console
$ hermesops rollout retry
```
<!-- step tidy: change
undo: not needed
-->
```console
$ hermesops job run prune
```
<!-- step status-after: read
absent: halted
-->
```console
$ hermesops fleet status
```
""",
    "broke.md",
)


class Fleet:
    """A rollout that is halted until it is aborted or retried."""

    def __init__(self, answers: Mapping[str, bool | None], failing: str = "") -> None:
        self.is_halted = True
        self.answers = answers
        self.failing = failing
        self.ran: list[str] = []
        self.asked: list[str] = []
        self.said: list[str] = []
        self.made = RunbookRun(BOOK, "ada", execute=self.execute, ask=self.ask, report=self.report)

    def execute(self, words: tuple[str, ...]) -> Ended:
        line = " ".join(words)
        self.ran.append(line)
        if line == self.failing:
            return Ended(4, "trying\nerror: no \x1b[2Janswer\nhint: wait")
        if words[0] == "rollout":
            self.is_halted = False
        return Ended(0, "rollout is halted" if self.is_halted else "all is well")

    def ask(self, step: Step) -> bool | None:
        self.asked.append(step.name)
        return self.answers.get(step.name, True)

    def report(self, hint: Hint) -> None:
        self.said.append(str(hint))

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {step_result.step.name: step_result.outcome for step_result in self.made.results}


def test_a_step_may_end_as_its_tag_says() -> None:
    step = BOOK.steps[0]
    assert problem_of(step, Ended(3, "error: broken")) == "it ended with exit code 3: broken"
    assert problem_of(replace(step, exit_codes=(3,)), Ended(3, "error: broken")) == ""


def stopped(fleet: Fleet, begin: str = "") -> HermesError:
    with pytest.raises(HermesError) as raised:  # which one, each test reads
        fleet.made.run(begin)
    assert raised.value.message
    return raised.value


def test_a_step_that_reads_is_repeated_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_AGAIN_S", 0.01)
    text = "# T\n<!-- step show: read\nwithin: 5\nexpect: healthy\n-->\n```console\n$ hermesops fleet status\n```\n"
    reports = iter(["silent", "silent", "healthy", "not asked for"])
    book = parse("t", text, "t.md")
    runbook_run = RunbookRun(
        book, "", execute=lambda _: Ended(0, next(reports)), ask=lambda _: None, report=lambda _: None
    )
    runbook_run.run()
    assert next(reports) == "not asked for"
    book = parse("t", text.replace("within: 5\n", ""), "t.md")
    runbook_run = RunbookRun(book, "", execute=lambda _: Ended(0, "silent"), ask=lambda _: None, report=lambda _: None)
    with pytest.raises(HaltedError, match="did not print"):
        runbook_run.run()


def test_a_request_for_a_certificate_is_for_programs_and_not_shown() -> None:
    armour = "-----BEGIN CERTIFICATE REQUEST-----\\nMIIB+/=\\n-----END CERTIFICATE REQUEST-----\\n"
    printed = f'{{"certificate": {{"request": "{armour}", "serial": "5"}}, "payload": null}}\n'
    shown: list[str] = []
    text = "# T\n<!-- step show: read\nexpect: payload\n-->\n```console\n$ hermesops fleet status\n```\n"
    runbook_run = RunbookRun(
        parse("t", text, "t.md"),
        "",
        execute=lambda _: Ended(0, printed),
        ask=lambda _: None,
        report=lambda _: None,
        show=shown.append,
    )
    runbook_run.run()
    assert shown == ['{"certificate": {"request": "(CERTIFICATE REQUEST)", "serial": "5"}, "payload": null}\n']


HEARTBEAT = """# It is silent

## Diagnosis

<!-- step show: read -->
```console
$ hermesops instance show USER
```

| `show` shows | what it is |
|---|---|
| `machine status stopped` | it is off: [machine](machine-gone.md) |
| `gateway silent` | it hangs |

## Mitigation

<!-- step reboot: change
undo: not needed
-->
```console
$ hermesops instance reboot USER
```

## Verify

<!-- step show-after: read
within: 5
newer: last heartbeat
expect: health healthy
-->
```console
$ hermesops instance show USER
```
"""


class SilentMachine:
    """It answers as it is told; its heartbeats are as old as they are told to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shown: str, text: str = HEARTBEAT) -> None:
        monkeypatch.setattr(running, "_AGAIN_S", 0.01)
        self.told = iter(shown)
        self.ran: list[str] = []
        self.said: list[str] = []
        self.shown: list[str] = []
        self.made = RunbookRun(
            parse("silent", text, "silent.md"),
            "ada",
            execute=self.execute,
            ask=lambda _: True,
            report=lambda hint: self.said.append(str(hint)),
            show=self.shown.append,
        )

    def execute(self, words: tuple[str, ...]) -> Ended:
        self.ran.append(words[1])
        return Ended(0, "" if words[1] == "reboot" else next(self.told))


def beat(age_s: float) -> str:
    """What ``instance show`` says of a machine whose last heartbeat is so old."""
    at = (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(timespec="seconds")
    return f"last heartbeat  {at}\nmachine status  stopped\nhealth healthy"


def test_a_heartbeat_from_before_the_change_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SilentMachine(monkeypatch, beat(80), beat(80), beat(30), beat(-5), "not asked for")
    machine.made.run()
    assert machine.ran == ["show", "reboot", "show", "show", "show"]
    assert next(machine.told) == "not asked for"
    waits = [line for line in machine.said if "it is repeated for 5 s" in line]
    assert len(waits) == 1
    assert "its last heartbeat is of " in waits[0]


@pytest.mark.parametrize("begin", ["", "show-after"])
def test_an_old_heartbeat_halts_where_no_newer_one_comes(monkeypatch: pytest.MonkeyPatch, begin: str) -> None:
    shown = [beat(80)] * 3
    machine = SilentMachine(monkeypatch, *shown, text=HEARTBEAT.replace("within: 5\n", ""))
    with pytest.raises(HaltedError, match=r"its last heartbeat is of .*, before .* UTC, when the last change ended"):
        machine.made.run(begin)


def test_heartbeats_that_nothing_records_are_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SilentMachine(monkeypatch, *["last heartbeat -\nhealth healthy"] * 2)
    machine.made.run()
    assert "show-after: no last heartbeat is recorded here, so none was waited for" in machine.said


def test_a_time_that_cannot_be_read_halts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEARTBEAT.replace("within: 5\n", "")
    for shown in ("last heartbeat soon\nhealth healthy", "health healthy"):
        with pytest.raises(HaltedError, match="it did not print a time as “last heartbeat”"):
            SilentMachine(monkeypatch, shown, shown, text=text).made.run()


def test_the_row_that_fits_is_told_before_anything_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SilentMachine(monkeypatch, beat(80), beat(-5))
    machine.made.run()
    text = "diagnosis: it is off: machine (runbook machine-gone); evidence: “machine status stopped”"
    assert machine.said.index(text) < machine.said.index("reboot: hermesops instance reboot USER")
    assert machine.made.transcript()["diagnosis"] == [
        {"meaning": "it is off: machine (runbook machine-gone)", "evidence": ["machine status stopped"]}
    ]


def test_where_no_row_fits_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SilentMachine(monkeypatch, "gateway ok", beat(-5))
    machine.made.run()
    assert [line for line in machine.said if line.startswith("diagnosis")] == [
        "diagnosis: the outputs alone match no row; hermesops runbook show silent shows the rows to check by hand"
    ]
    assert machine.made.transcript()["diagnosis"] == []


def test_a_step_that_halts_the_diagnosis_leaves_its_row_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEARTBEAT.replace("show: read -->", "show: read\nexpect: status running\n-->", 1)
    machine = SilentMachine(monkeypatch, "gateway silent", text=text)
    with pytest.raises(HaltedError, match="did not print “status running”"):
        machine.made.run()
    assert machine.said[-1] == "diagnosis: it hangs; evidence: “gateway silent”"


def test_a_run_that_read_nothing_tells_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SilentMachine(monkeypatch, beat(-5))
    machine.made.run("reboot")
    assert machine.made.transcript()["diagnosis"] is None
    assert not [line for line in machine.said if line.startswith("diagnosis")]


def test_of_a_long_output_the_end_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {number}\n" for number in range(running.SHOWN_LINES + 60)]
    machine = SilentMachine(monkeypatch, "".join(lines), beat(-5))
    machine.made.run()
    assert machine.shown == ["".join(lines[60:]), mock.ANY]
    assert "show: 60 earlier lines are omitted; hermesops instance show USER prints all" in machine.said
    assert machine.shown[1].startswith("last heartbeat"), "what was printed while it was awaited is not shown"


def test_a_way_that_may_be_left_out_halts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_AGAIN_S", 0.01)
    text = """# T
<!-- step revoke: decide
otherwise: left out
undo: not possible
-->
```console
$ hermesops token revoke USER
```
<!-- step list: read -->
```console
$ hermesops token list USER
```
"""
    reports: list[str] = []
    for answer, outcome in ((None, Outcome.LEFT_OUT), (False, Outcome.LEFT_OUT), (True, Outcome.DONE)):
        runbook_run = RunbookRun(
            parse("t", text, "t.md"),
            "ada",
            execute=lambda _: Ended(0, ""),
            ask=lambda _, answer=answer: answer,  # type: ignore[misc]
            report=lambda hint: reports.append(str(hint)),
        )
        runbook_run.run()
        assert [step_result.outcome for step_result in runbook_run.results] == [outcome, Outcome.DONE]
    assert "revoke: skipped, not selected; hermesops token revoke USER" in reports


@pytest.mark.parametrize("line", ["within: soon", "within: 601", "within: -1"])
def test_a_time_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="within SECONDS"):
        parse("t", f"# T\n<!-- step show: read\n{line}\n-->\n```console\n$ hermesops fleet status\n```\n", "t.md")


def test_a_way_that_is_picked_makes_the_others_unneeded() -> None:
    fleet = Fleet({})
    fleet.made.run()
    assert fleet.asked == ["abort", "tidy"]
    assert fleet.outcomes == {
        "status": Outcome.DONE,
        "abort": Outcome.DONE,
        "retry": Outcome.NOT_NEEDED,
        "tidy": Outcome.DONE,
        "status-after": Outcome.DONE,
    }
    assert fleet.ran == ["fleet status", "rollout abort", "fleet status", "job run prune", "fleet status"]
    assert "status: hermesops fleet status" in fleet.said


def test_a_way_that_is_not_picked_leaves_the_next() -> None:
    fleet = Fleet({"abort": False})
    fleet.made.run()
    assert fleet.asked == ["abort", "retry", "tidy"]
    assert (fleet.outcomes["abort"], fleet.outcomes["retry"]) == (Outcome.LEFT_OUT, Outcome.DONE)


def test_where_no_way_is_picked_the_proof_fails() -> None:
    fleet = Fleet({"abort": False, "retry": False})
    error = stopped(fleet)
    assert isinstance(error, HaltedError)
    assert error.message == "step status-after: it should not print “halted”, but printed “rollout is halted”"
    assert "hermesops runbook run broke --instance ada --from status-after" in str(error.hint)


def test_without_an_answer_nothing_is_changed() -> None:
    fleet = Fleet({"abort": None})
    error = stopped(fleet)
    assert isinstance(error, RefusedError)
    assert error.message == "step abort was not confirmed: nothing was changed"
    assert "runbook run broke --instance ada --from abort" in str(error.hint)
    assert fleet.ran == ["fleet status"]


@pytest.mark.parametrize("answer", [False, None])
def test_a_change_that_is_refused_stops_and_names_what_was_done(*, answer: bool | None) -> None:
    error = stopped(Fleet({"tidy": answer}))
    assert isinstance(error, PartlyDoneError)
    assert error.message == "step tidy was not confirmed: done before: abort"


def test_a_run_from_a_step_reads_again_what_that_depends_on() -> None:
    fleet = Fleet({})
    fleet.made.run("retry")
    assert fleet.ran == ["fleet status", "rollout retry", "job run prune", "fleet status"]
    assert list(fleet.outcomes) == ["retry", "tidy", "status-after"]


def test_a_change_that_fails_stops_with_its_error_and_how_to_undo_it() -> None:
    fleet = Fleet({"abort": False}, failing="rollout retry")
    error = stopped(fleet)
    assert error.message == r"step retry: it ended with exit code 4: no \x1b[2Janswer"
    assert "--from retry" in str(error.hint)
    assert "undo: hermesops rollout abort --reason WHY" in str(error.hint)
    assert fleet.outcomes["retry"] is Outcome.DIFFERS
    assert fleet.ran[-1] == "rollout retry"


def test_a_guard_that_cannot_be_read_stops() -> None:
    error = stopped(Fleet({}, failing="fleet status"), "retry")
    assert isinstance(error, HaltedError)
    assert error.message.startswith("step retry: status, which it depends on: it ended with exit code 4")


def test_the_transcript_has_commands_and_what_decided() -> None:
    fleet = Fleet({"abort": False}, failing="rollout retry")
    stopped(fleet)
    transcript = fleet.made.transcript()
    assert transcript["runbook"] == "broke"
    assert transcript["steps"] == [
        {"step": "status", "command": ["fleet", "status"], "outcome": "done", "exit_code": 0, "detail": ""},
        {"step": "abort", "command": ["rollout", "abort"], "outcome": "left out", "exit_code": None, "detail": ""},
        {
            "step": "retry",
            "command": ["rollout", "retry"],
            "outcome": "differs",
            "exit_code": 4,
            "detail": r"it ended with exit code 4: no \x1b[2Janswer",
        },
    ]


def test_an_interruption_is_in_the_transcript() -> None:
    def interrupt(_: tuple[str, ...]) -> Ended:
        raise KeyboardInterrupt

    runbook_run = RunbookRun(BOOK, "", execute=interrupt, ask=lambda _: True, report=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        runbook_run.run()
    assert [step_result.outcome for step_result in runbook_run.results] == [Outcome.INTERRUPTED]
    assert str(runbook_run.next_hint(runbook_run.results[-1].step)).startswith(
        "hermesops runbook run broke --from status"
    )


def step(*, expect: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Step:
    return Step("it", Kind.READ, ("fleet", "status"), 1, (), expect, absent, Hint())


@each_case(
    ("step", "ended", "problem"),
    [
        (step(), Ended(0, ""), ""),
        (step(expect=("is on",)), Ended(0, "ada is  on cell1"), ""),
        (step(expect=("is on", "cell2")), Ended(0, "ada is on cell1"), "it did not print “cell2”"),
        (step(expect=("is on",)), Ended(7, "ada is on cell1"), "it ended with exit code 7"),
        (step(absent=("ada",)), Ended(0, "bob"), ""),
        (step(absent=("ada",)), Ended(0, "ada\x1b[2J"), r"it should not print “ada”, but printed “ada\x1b[2J”"),
        (step(absent=("ada",)), Ended(0, "bob", is_cut=True), "it printed too much to be sure that “ada” is not there"),
    ],
)
def test_what_differs_is_named(step: Step, ended: Ended, problem: str) -> None:
    assert problem_of(step, ended) == problem


def test_who_agrees_beforehand_agrees_to_changes_and_to_the_step_that_is_picked() -> None:
    read, change, decide = (replace(step(), kind=kind) for kind in Kind)
    assert (agreed(change, ""), agreed(decide, "it"), agreed(read, "it")) == (True, True, True)
    assert (agreed(decide, ""), agreed(decide, "other"), agreed(read, "")) == (None, None, None)
