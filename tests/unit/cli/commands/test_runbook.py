"""``hermesops runbook``: what is asked, what a program reads, and which names the shell completes."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermesops.cli.commands import runbook
from hermesops.cli.options import runbook as options
from hermesops.errors import Hint, RefusedError
from hermesops.model.plan import Plan
from hermesops.observability.runbook import service as runbooks
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import Guard, Kind, Step, parse
from hermesops.settings.environment import Environment
from hermesops.views.observability import runbooks as shapes
from tests.support.fakes.terminal import Terminal, begin_anew


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(monkeypatch, tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())


def step(kind: Kind) -> Step:
    guard = Guard("status", "halted", is_shown=True)
    return Step("retry", kind, ("rollout", "retry", "a b"), 7, (guard,), ("done",), ("halted",), Hint("a new rollout"))


@pytest.mark.parametrize("kind", [Kind.CHANGE, Kind.DECIDE])
@pytest.mark.parametrize(("typed", "answer"), [("yes\n", True), ("y\n", False), ("\n", False), ("", False)])
def test_a_person_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: Kind, typed: str, *, answer: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert runbook._ask(step(kind), yes=False, picked="") is answer
    output = capsys.readouterr().err
    assert "hermesops rollout retry 'a b'" in output
    assert "undo: a new rollout" in output


@pytest.mark.parametrize(
    ("kind", "yes", "picked", "answer"),
    [
        (Kind.CHANGE, False, "", None),
        (Kind.CHANGE, False, "retry", None),
        (Kind.CHANGE, True, "", True),
        (Kind.DECIDE, True, "", None),
        (Kind.DECIDE, True, "abort", None),
        (Kind.DECIDE, True, "retry", True),
    ],
)
def test_without_a_terminal_only_yes_is_one_and_picks_nothing(
    kind: Kind, picked: str, *, yes: bool, answer: bool | None
) -> None:
    assert runbook._ask(step(kind), yes=yes, picked=picked) is answer


def test_production_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "production")
    with pytest.raises(RefusedError, match="HERMESOPS_ENV chose it: step retry did not run"):
        runbook._ask(step(Kind.CHANGE), yes=True, picked="")


def test_a_step_as_people_and_programs_read_it() -> None:
    assert list(runbook._lines(step(Kind.DECIDE))) == [
        "retry (decide)",
        "  $ hermesops rollout retry 'a b'",
        "  if status shows “halted”",
        "  expects done",
        "  must not show halted",
        "  undo: a new rollout",
    ]
    assert shapes.step(step(Kind.DECIDE)) == {
        "step": "retry",
        "kind": "decide",
        "command": Hint(("rollout", "retry", "a b")),
        "guards": ["if status shows “halted”"],
        "expect": ["done"],
        "absent": ["halted"],
        "undo": Hint("a new rollout"),
    }


def test_commands_that_no_step_runs_are_left_to_a_person_by_name() -> None:
    step, other = "undo: none\n-->\n```console\n$ hermesops fleet drift\n```", "```console\n$ hermesops {}\nok\n```"
    text = "\n".join(
        (
            *(
                "# T",
                "## Diagnosis",
                other.format("doctor"),
                "## Mitigation",
                "1. Stop.",
                other.format("rollout freeze"),
            ),
            *(f"<!-- step one: change\n{step}", "  " + other.format("provision USER").replace("\n", "\n  ")),
            *("## Verify", other.format("fleet status")),
        )
    )
    book = parse("t", text, "t.md").filled({"USER": "ada"})
    assert [runbook_step.name for runbook_step in book.steps] == ["one"]
    assert book.by_hand == ("hermesops rollout freeze", "hermesops provision ada")
    assert list(runbook._left(book))[1:] == ["  $ hermesops rollout freeze", "  $ hermesops provision ada"]
    assert list(runbook._left(parse("t", f"# T\n## Mitigation\n<!-- step one: change\n{step}", "t.md"))) == []


def test_a_value_that_is_not_there_stays_a_word_and_is_told() -> None:
    text = "# T\n<!-- step go-on: change\nundo: none\n-->\n```console\n$ hermesops operation continue OPERATION\n```\n"
    book = parse("t", text, "t.md")
    instance = SimpleNamespace(title="ada", id="i", plan=Plan.LIGHT, cell="cell1")
    for unfinished, word, reports in (
        ([], "OPERATION", ["OPERATION: its oldest unfinished operation; there is none now"]),
        ([SimpleNamespace(id="o1")], "o1", []),
    ):
        registry = SimpleNamespace(operations=SimpleNamespace(list=lambda operations=unfinished, **_: operations))
        filled = book.filled(runbooks.values_of(registry, book, instance))  # type: ignore[arg-type]
        assert filled.steps[0].command[-1] == word
        assert list(runbook._remarks(shapes.unfilled(filled))) == reports


@pytest.mark.parametrize(
    ("words", "shown"), [(("fleet", "status"), []), (("instance", "restart", "ada"), ["restarted\n"])]
)
def test_what_a_reading_step_prints_is_not_shown_as_it_comes(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], shown: list[str]
) -> None:
    written: list[str] = []

    async def run_command(_: object, *, show: Callable[[str], None], **_others: object) -> Ended:
        show("restarted\n")
        return Ended(0, "restarted\n")

    monkeypatch.setattr("hermesops.observability.runbook.command.run_command", run_command)
    monkeypatch.setattr(options, "write", written.append)
    monkeypatch.setattr("hermesops.cli.context.run", asyncio.run)
    container = SimpleNamespace(env=Environment.load("local", {"HOME": "/h"}))
    assert options.execute(container, words).output == "restarted\n"  # type: ignore[arg-type]
    assert written == shown


def test_names_are_completed() -> None:
    assert runbook._begins("machine-") == ["machine-certificate", "machine-gone"]


def test_its_commands_have_the_operators_keys_and_nothing_of_other_programs() -> None:
    given = {
        "HOME": "/h",
        "HERMESOPS_API_KEY": "k1",
        "HERMESOPS_SECRET_RELEASE_KEY": "k2",
        "HERMESOPS_GRACE_DAYS": "3",
        "SSH_AUTH_SOCK": "/s",
        "OPENAI_API_KEY": "k3",
        "UV_PUBLISH_TOKEN": "k4",
        "LD_PRELOAD": "/evil.so",
    }
    variables_of = runbooks.variables_of(Environment.load("local", given))
    wanted = {name: text for name, text in given.items() if name.startswith(("HOME", "HERMESOPS_", "SSH"))}
    assert variables_of == {**wanted, "HERMESOPS_ENV": "local"}
