"""The end of a run says where its time went."""

from pathlib import Path

import pytest

from tests.support.suite.costs import BUDGETS, Cost, Worker, budgets, late_turns, summary
from tests.support.suite.turns import Turn

COSTS = [
    Cost("tests/unit/model/test_route.py::test_rubbish", 2.5, 1.5),
    Cost("tests/unit/model/test_route.py::test_route", 0.1, 0.1),
    Cost("tests/e2e/test_agent.py::test_agent", 60, 8),
]


def lines() -> list[str]:
    return list(summary(COSTS, [Worker("gw0", 4.06), Worker("gw1", 5)], 0.25, {"tests/unit": 1, "tests/e2e": 450}))


def test_folders_stand_beside_their_budgets() -> None:
    folders = {line.split()[0]: line.split()[1:] for line in lines() if line.startswith("tests/")}
    assert folders == {"tests/e2e": ["1", "60", "8", "450"], "tests/unit": ["2", "3", "2", "1", "over"]}


def test_full_counts_are_told_by_file() -> None:
    costs = [Cost(f"tests/soak/test_{name}.py::test_{name}", 60, 8) for name in ("crowd", "bases")]
    folders = [line.split() for line in summary(costs, [], 0, {}) if line.startswith("tests/")]
    assert folders == [[f"tests/soak/test_{name}.py", "1", "60", "8", "none"] for name in ("bases", "crowd")]


def test_the_longest_come_first_and_slow_unit_tests_by_name() -> None:
    named = [line.split()[-1] for line in lines() if "::" in line]
    assert named == [COSTS[2].test, COSTS[0].test, COSTS[1].test, COSTS[0].test]


def test_collection_and_waiting_are_told() -> None:
    assert lines()[0] == "collection, processor: gw0 4.1 s, gw1 5.0 s; workers waited for each other 25% of the run"


def test_each_folder_of_tests_has_a_budget() -> None:
    assert set(budgets(BUDGETS)) == {f"tests/{name}" for name in ("unit", "contract", "hostile", "integration", "e2e")}


def test_a_run_with_workers_ends_with_it(pytester: pytest.Pytester) -> None:
    pytester.syspathinsert(Path(__file__).parents[3])
    pytester.makepyfile("def test_that_works():\n    sum(range(3_000_000))\ndef test_that_fails():\n    assert 0")
    result = pytester.runpytest_subprocess("-p", "tests.support.suite.costs", "-p", "no:cacheprovider", "-n", "1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*where the time went*", "collection, processor: *", "*test_that_works", "*above 1 s*"]
    )


def test_turns_that_took_longer_than_they_say_are_named_the_latest_first() -> None:
    short, long, right = Turn(60, "tests/e2e/test_a.py"), Turn(20, "tests/e2e/test_b.py::test_b"), Turn(30, "right")
    costs = [
        *(Cost(f"tests/e2e/test_a.py::test_{name}", 50, 1, short) for name in "ab"),
        Cost("tests/e2e/test_b.py::test_b", 99, 1, long),
        Cost("right", 45, 1, right),
        COSTS[0],
    ]
    assert list(late_turns(costs)) == [
        "took 99 s and says 20 s: tests/e2e/test_b.py::test_b",
        "took 100 s and says 60 s: tests/e2e/test_a.py",
    ]
