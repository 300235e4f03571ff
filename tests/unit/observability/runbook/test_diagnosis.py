"""The table of a runbook that tells what it is: which rows outputs alone decide, and which fit."""

from hermesops.base import assets
from hermesops.observability.runbook.diagnosis import Case, Printed, cases_of
from hermesops.observability.runbook.document import load, names
from tests.support.suite.cases import each_case

FOLDER = assets.folder("runbooks")
STEPS = {
    "show": frozenset({"show"}),
    "drift": frozenset({"drift"}),
    "instance show": frozenset({"show"}),
    "fleet drift": frozenset({"drift"}),
}
DECIDED = {
    "heartbeat-missed": "machine status stopped",
    "gateway-down": "gateway silent\nmachine status ready",
    "messenger-disconnected": '{"detail": "fatal", "name": "messenger:slack", "ok": false}',
    "model-failing": "ticket ProviderKeyRefused",
    "clock-off": '{"clock": {"off": true, "offset_s": 42.1}, "draining": false}',
    "model-tokens": "ada models none since it was revoked",
    "gateway-looping": "database disk image is malformed",
    "agent-reachability-burn": "critical machine-restorable ada",
}
"""Of runbooks whose table outputs decide: what each may print."""


def cases(*rows: str, header: str = "what is seen") -> tuple[Case, ...]:
    return cases_of([f"| {header} | what it is |", "|---|---|", *(f"| {row} | it |" for row in rows)], STEPS)


def fits(row: str, *, header: str = "what is seen", **outputs: str) -> tuple[str, ...]:
    [case] = cases(row, header=header)
    return case.evidence(outputs)


def test_a_row_fits_by_what_was_printed() -> None:
    assert fits("`gateway silent`", show="status ok\ngateway   silent") == ("gateway silent",)
    assert fits("`gateway silent`", show="gateway ok", drift="nothing differs") == ()


def test_outputs_count_of_the_step_that_is_named_before_them() -> None:
    row = "`show` shows `machine status -`, and `fleet drift` says `machine-restorable ada`"
    printed = {"show": "machine status  -", "drift": "critical  machine-restorable  ada"}
    assert fits(row, **printed) == ("machine status -", "machine-restorable ada")
    assert fits(row, show=f"{printed['show']}\n{printed['drift']}", drift="nothing differs") == ()


def test_a_header_may_name_the_step_of_all_rows() -> None:
    assert fits("`stopped`", header="`instance show` says", drift="stopped") == ()
    assert fits("`stopped`", header="`instance show` says", show="stopped") == ("stopped",)


def test_all_of_a_way_has_to_be_seen_and_one_way_is_enough() -> None:
    assert fits("`a` and `b`", show="a") == ()
    assert fits("`a`, `b`", show="a b") == ("a", "b")
    assert fits("`a` or `b` and `c`", show="b", drift="c") == ("b", "c")


@each_case(
    "row",
    [
        "one agent, and `show` shows `a`",
        "`show`: a rollout ended shortly before",
        "`LEFT` of `models` is days",
        "`a` or the log is empty",
        "`show` or `fleet drift` shows `a`",
        "nothing",
    ],
)
def test_a_row_with_other_words_is_for_a_person(row: str) -> None:
    [case] = cases(row)
    assert case.ways == ()
    assert case.evidence({"show": "a LEFT models", "drift": "a"}) == ()


def test_tables_of_other_shapes_are_left_alone() -> None:
    assert cases_of(["| kind | why | then |", "|---|---|---|", "| `open` | | it is open |"], STEPS) == ()
    assert cases_of(["no table"], STEPS) == ()


def test_what_it_is_is_said_without_marks_and_about_one_instance() -> None:
    table = ["| seen | is |", "|---|---|", "| `on USER` | [it is gone](machine-gone.md): `provision USER` |"]
    [case] = cases_of(table, STEPS)
    assert case.filled({"USER": "ada"}) == Case(
        "it is gone (runbook machine-gone): provision ada", ((Printed(frozenset(), "on ada"),),)
    )


@each_case("name", DECIDED)
def test_the_tables_of_these_are_decided_by_what_their_steps_print(name: str) -> None:
    runbook = load(FOLDER, name)
    reading = [step.name for step in runbook.steps[: runbook.diagnosed]]
    assert any(case_.evidence(dict.fromkeys(reading, DECIDED[name])) for case_ in runbook.cases)


@each_case("name", names(FOLDER))
def test_what_mends_comes_after_the_diagnosis(name: str) -> None:
    runbook = load(FOLDER, name)
    assert runbook.diagnosed >= 1
    named = {step.name for step in runbook.steps[: runbook.diagnosed]}
    for case in runbook.cases:
        assert all(printed.steps <= named for way in case.ways for printed in way)
