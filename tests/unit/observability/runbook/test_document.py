"""Runbooks are read into steps; a wrong tag is told with its file and line."""

import shlex
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.errors import Hint, UsageError
from hermesops.observability.runbook import document
from hermesops.observability.runbook.document import Guard, Kind, load, names, parse
from hermesops.observability.runbook.matching import shows
from tests.contract.cli.test_hints import problem_of
from tests.support.suite.cases import each_case

FOLDER = assets.folder("runbooks")
WITH_STEPS = ("backups-are-late", "instance-suspended", "machine-gone", "rollout-halted")

GOOD = """# It broke

Why.

<!-- step drift: read
expect: machine-restorable USER
-->
```console
$ hermesops fleet drift
critical  machine-restorable  USER
```

1. Mend it.

   <!-- step restore: change
   if: drift shows machine-restorable USER
   unless: drift shows duplicate
   expect: the agent of USER is on …
   absent: not started
   undo: hermesops instance suspend USER --reason WHY
   -->
   ```console
   $ hermesops backup restore USER --reason "it broke" --yes
   ```

```console
$ hermesops worker
```
"""


def test_tagged_blocks_are_steps() -> None:
    read = parse("broke", GOOD, "broke.md")
    drift, restore = read.steps
    assert (read.title, drift.name, drift.kind, drift.command, drift.line) == (
        "It broke",
        "drift",
        Kind.READ,
        ("fleet", "drift"),
        5,
    )
    assert drift.expected == ("machine-restorable USER",)
    assert restore.command == ("backup", "restore", "USER", "--reason", "it broke", "--yes")
    assert restore.guards == (
        Guard("drift", "machine-restorable USER", is_shown=True),
        Guard("drift", "duplicate", is_shown=False),
    )
    assert restore.absent == ("not started",)
    assert read.values == {"USER"}


@pytest.mark.parametrize(
    "command",
    [
        "instance exec USER 'hermes-node status'",
        "instance exec USER 'hermes-node metrics' --reason look",
        "monitor --check",
        "instance settings USER",
    ],
)
def test_some_commands_only_read_as_they_are_written(command: str) -> None:
    read = parse("broke", GOOD.replace("fleet drift", command, 1), "broke.md")
    assert read.steps[0].command == tuple(shlex.split(command))


@each_case(
    "command",
    [
        "instance exec USER 'hermes-node fence'",
        "instance exec USER 'hermes-node status; reboot'",
        "instance exec --user 'hermes-node status' reboot",
        "instance exec USER 'hermes-node status' --user x",
        "monitor --check --once",
        "monitor --once",
        "instance settings USER --back",
        "instance settings --back",
    ],
)
def test_others_like_them_do_not(command: str) -> None:
    with pytest.raises(UsageError, match="is not a read-only command"):
        parse("broke", GOOD.replace("fleet drift", command, 1), "broke.md")


def test_alerts_and_exit_codes_are_read() -> None:
    text = GOOD.replace("Why.", "Alerts: GatewayDown, CellLost.\nWhy.").replace(
        "expect: machine", "exit: 3\nexpect: machine", 1
    )
    read = parse("broke", text, "broke.md")
    assert (read.alerts, read.steps[0].exit_codes) == (("GatewayDown", "CellLost"), (3,))


def test_a_runbook_is_found_by_an_alert() -> None:
    assert load(FOLDER, "HeartbeatMissed").name == "heartbeat-missed"
    with pytest.raises(UsageError, match="nearest: HeartbeatMissed"):
        load(FOLDER, "HeartbeatMised")


def test_what_people_read_has_no_tags() -> None:
    text = parse("broke", GOOD, "broke.md").text
    assert "<!--" not in text
    assert "$ hermesops fleet drift" in text
    assert "$ hermesops worker" in text


@each_case("user", ["ada", "ada lovelace", "$(reboot)", "a; b", "it's", "--now"])
def test_a_value_is_one_word(user: str) -> None:
    restore = parse("broke", GOOD, "broke.md").filled({"USER": user}).steps[1]
    assert restore.command == ("backup", "restore", user, "--reason", "it broke", "--yes")
    assert shlex.split(restore.undo.text()) == ["hermesops", "instance", "suspend", user, "--reason", "WHY"]
    assert restore.guards[0].text == f"machine-restorable {user}"


@each_case(
    ("before", "after", "line", "what"),
    [
        ("drift: read", "drift: look", 5, "a tag begins with “step NAME: read|change|decide”"),
        ("drift: read", "drift", 5, "a tag begins with"),
        ("step restore", "step drift", 15, "another step is named drift"),
        ("fleet drift", "instance restart USER", 5, "instance restart is not a read-only command"),
        ("undo: hermesops instance suspend USER --reason WHY\n", "\n", 15, "needs “undo:”"),
        ("expect: machine", "expects: machine", 6, "“expects” is none of expect, absent, exit NUMBER, if"),
        ("expect: machine-restorable USER", "expect:", 6, "is no “key: text”"),
        ("undo: hermesops", "newer: last heartbeat\n   undo: hermesops", 20, "“newer” is none of expect"),
        ("undo: hermesops", "otherwise: goes on\n   undo: hermesops", 20, "“otherwise” is none of expect"),
        ("undo: hermesops", "otherwise: left out\n   undo: hermesops", 15, "only a step that a person picks"),
        ("if: drift shows", "if: drift has", 16, "“if:” is followed by “STEP shows TEXT”"),
        ("if: drift shows", "if: restore shows", 16, "no step before this one reads and is named restore"),
        ("-->\n```console", "-->\n\n```console", 5, "a tag stands right before a block"),
        ("-->\n```console", "-->\n```bash", 5, "a tag stands right before a block"),
        ("$ hermesops fleet drift", "$ hermesops fleet drift\n$ hermesops job list", 8, "this block has 2"),
        ("$ hermesops fleet drift", "hermesops fleet drift", 8, "this block has 0"),
        ("$ hermesops fleet drift", "$ rm -r /", 9, "a step is a command of hermesops"),
        ("$ hermesops fleet drift", "$ hermesops --env x fleet drift", 9, "names no environment"),
        ("$ hermesops fleet drift", "$ hermesops runbook list", 9, "runs no other runbook"),
        ("$ hermesops fleet drift", "$ hermesops fleet drift | tee x", 9, "| would be a plain word"),
        ("$ hermesops fleet drift", '$ hermesops fleet "drift', 9, "no shell would read this command"),
        ("$ hermesops fleet drift", "$ hermesops operation show ID", 9, "ID is no known placeholder"),
        ("$ hermesops fleet drift", "$ hermesops audit log --subject instance/ID", 9, "ID is no known placeholder"),
        ("$ hermesops worker\n```\n", "$ hermesops worker\n", 26, "the block is not closed"),
        ("   -->\n   ```console", "   ```console", 15, "the tag does not end"),
    ],
)
def test_a_wrong_tag_is_told_with_its_line(before: str, after: str, line: int, what: str) -> None:
    assert before in GOOD
    with pytest.raises(UsageError) as raised:
        parse("broke", GOOD.replace(before, after, 1), "runbooks/broke.md")
    assert raised.value.message.startswith(f"runbooks/broke.md:{line}: ")
    assert what in raised.value.message
    assert "TEMPLATE.md" in str(raised.value.hint)


@each_case(
    ("text", "line"),
    [
        ("status running", "status          running"),
        ("ada", "critical  machine-restorable  ada (hermes-local-cell2)"),
        ("machine-restorable ada", "critical  machine-restorable  ada (hermes-local-cell2)"),
        ("the agent of ada is on …", "the agent of ada is on cell2"),
        ("rollout 1f of …: halted", "rollout 1f of r2: halted (why)"),
        ("…", "anything"),
        ("a.b", "a.b."),
    ],
)
def test_a_text_is_found_in_a_line(text: str, line: str) -> None:
    assert shows(f"first\n{line}\nlast", text) in {line, "first"}


@each_case(
    ("text", "output"),
    [
        ("ada", "adam"),
        ("ada", "ada-b ada.b ada@b b.ada b-ada"),
        ("a.b", "axb"),
        ("status running", "status\nrunning"),
        ("one … two", "one\ntwo"),
        ("tail", "x" * 5000 + " tail"),
    ],
)
def test_a_text_is_not_found_in_another_word(text: str, output: str) -> None:
    assert shows(output, text) == ""


def test_a_hostile_output_is_compared_at_once() -> None:
    assert shows("a " * 100_000, "a … a … a … b") == ""


@each_case("name", names(FOLDER))
def test_every_runbook_can_be_read(name: str) -> None:
    for step in load(FOLDER, name).steps:
        assert problem_of(step.command) == "", f"runbooks/{name}.md:{step.line}: {Hint(step.command)}"
        for part in step.undo.parts:
            assert not isinstance(part, tuple) or problem_of(part) == "", f"runbooks/{name}.md:{step.line}: {step.undo}"


@pytest.mark.parametrize("name", WITH_STEPS)
def test_these_lead_from_a_look_over_a_change_to_a_proof(name: str) -> None:
    kinds = [step.kind for step in load(FOLDER, name).steps]
    assert kinds[0] is kinds[-1] is Kind.READ
    assert set(kinds) - {Kind.READ}


def test_the_template_is_right_and_no_runbook() -> None:
    assert len(parse("TEMPLATE", (FOLDER / "TEMPLATE.md").read_text(), "TEMPLATE.md").steps) == 3
    assert not {"TEMPLATE", "everyday", "glossary", "architecture"} & set(names(FOLDER))
    assert set(WITH_STEPS) < set(names(FOLDER))


def test_a_runbook_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runbook 'machine-gon'; nearest: machine-gone"):
        load(FOLDER, "machine-gon")
    with pytest.raises(UsageError, match=r"no runbook '\.\./README'"):
        load(FOLDER, "../README")
    assert document.names(tmp_path) == []


@each_case("name", names(FOLDER))
def test_a_machine_that_is_called_healthy_has_sent_a_heartbeat_since(name: str) -> None:
    for step in load(FOLDER, name).steps:
        if "health healthy" in step.expected:
            assert step.newer == ("last heartbeat",), f"runbooks/{name}.md:{step.line}"
            assert step.within_s >= 120, "heartbeats are 30 s apart, and take some more until they are recorded"


def test_where_a_run_begins() -> None:
    read = parse("broke", GOOD, "broke.md")
    assert (read.begin_at(""), read.begin_at("restore")) == (0, 1)
    with pytest.raises(UsageError, match="broke has no step 'restores'") as raised:
        read.begin_at("restores")
    assert "drift, restore" in str(raised.value.hint)
    with pytest.raises(UsageError, match="no command of bare is tagged"):
        parse("bare", "# Bare\n", "bare.md").begin_at("")
