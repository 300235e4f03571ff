"""Words that carry a meaning are shown by it, wherever they say a state, and nowhere else."""

import re
from enum import StrEnum

from hermesops.agents.drift import finding
from hermesops.cli.printing import palette
from hermesops.cli.printing.palette import Style
from hermesops.model.billing.events import BillingState
from hermesops.model.check import Verdict
from hermesops.model.fleet import alert
from hermesops.model.fleet.health import Condition, GatewayHealth
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.unassigned_machine import UnassignedStatus
from hermesops.model.operation import OperationStatus
from hermesops.model.rollout.records import GateResult, RolloutState, TargetState
from hermesops.observability.runbook.run import Outcome
from hermesops.vendor.justavps import MachineStatus

STATES: tuple[type[StrEnum], ...] = (
    *(InstanceStatus, OperationStatus, RolloutState, TargetState, GateResult, Condition, GatewayHealth, Verdict),
    *(alert.Severity, finding.Severity, BillingState, UnassignedStatus, Outcome, MachineStatus),
)


def styled(line: str, *commands: str) -> list[tuple[str, Style]]:
    return [(line[begin:end], style) for begin, end, style in palette.spans(line, commands)]


def test_each_state_has_a_style() -> None:
    missing = {
        f"{kind.__name__}.{state}" for kind in STATES for state in kind if state.replace(" ", "_") not in palette.WORDS
    }
    assert missing == set()


def test_a_word_is_styled_where_it_says_a_state() -> None:
    for line, shown in (
        ("ada   light  running  cell1", [("running", Style.GOOD)]),
        ("status          suspended", [("suspended", Style.WARNING)]),
        ("critical  machine-missing  ada", [("critical", Style.BAD)]),
        ("stage 1/1, 2 of 3 healthy, 10 failed: bad", [("healthy", Style.GOOD), ("failed", Style.BAD)]),
        ("rollout 4f is rolled back: memory", [("rolled back", Style.PAST)]),
        ("state: set_aside (no user)", [("set_aside", Style.WARNING)]),
    ):
        assert styled(line) == shown, line


def test_names_sentences_and_zero_are_not() -> None:
    for line in (
        "outdated  3  -",
        "clock-off  A machine's clock is off",
        "0 failed",
        "10.0 failed",
        "it failed",
        "failedly",
    ):
        assert styled(line) == [], line


def test_words_of_people_are_not() -> None:
    for note in ("broken: machines", "failed", "was 3 failed, is none"):
        line = f"4f2a  running  {note}"
        assert len(styled(line)) > 1, line
        spans = palette.spans(line, notes=palette.words_in_note(note))
        assert [line[begin:end] for begin, end, _ in spans] == ["running"], line


def test_headings_leads_and_commands_are_strong() -> None:
    assert styled("USER  CREATED AT") == [("USER  CREATED AT", Style.STRONG)]
    assert styled("error: no user: failed") == [("error:", Style.BAD), ("failed", Style.BAD)]
    command = "hermesops instance show ada"
    assert styled(f"hint: {command} says why", command) == [("hint:", Style.LEAD), (command, Style.STRONG)]


def luminance(colour: int) -> float:
    """The relative luminance of a colour of the fixed cube: 16 + 36 red + 6 green + blue, each from 0 to 5."""
    cube = divmod(colour - 16, 36)
    levels = (cube[0], *divmod(cube[1], 6))
    parts = [(0.0, 95.0, 135.0, 175.0, 215.0, 255.0)[level] / 255 for level in levels]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_each_colour_can_be_read_on_black_and_on_white() -> None:
    colours = {style: re.findall(r"color\((\d+)\)", style) for style in Style}
    assert {style for style, numbers in colours.items() if not numbers} == {Style.PAST, Style.STRONG}
    words = {word for style in Style for word in re.sub(r"color\(\d+\)", "", style).split()}
    assert words <= {"bold", "dim"}, "a colour that each terminal chooses cannot be read on each background"
    for style, numbers in colours.items():
        for shade in map(luminance, map(int, numbers)):
            contrasts = ((shade + 0.05) / 0.05, 1.05 / (shade + 0.05))
            assert min(contrasts) > 3.8, f"{style}: {contrasts[0]:.1f} to black, {contrasts[1]:.1f} to white"


def test_what_a_terminal_gets_is_the_line_with_its_colours() -> None:
    assert palette.painted("ada  failed  x") == "ada  \x1b[1;38;5;160mfailed\x1b[0m  x"
    assert palette.painted("ada  running  x") == "ada  \x1b[38;5;28mrunning\x1b[0m  x"
    assert palette.painted("USER  PLAN") == "\x1b[1mUSER  PLAN\x1b[0m"
    assert palette.painted("nothing here") == "nothing here"
    assert palette.drawn("ada  failed  x").plain == "ada  failed  x"
    assert [(span.start, span.end, span.style) for span in palette.drawn("ada  failed  x").spans] == [
        (5, 11, "bold color(160)")
    ]
