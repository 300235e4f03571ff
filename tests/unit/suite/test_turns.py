"""Slow tests are divided into parts of known size, and each test has its turn."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.suite.turns import Turn, part

TURNS = st.lists(st.floats(0.1, 200), max_size=40).map(
    lambda seconds: [Turn(each, f"test_{number}") for number, each in enumerate(seconds)]
)
BUDGET_S = 120.0


@given(TURNS)
def test_each_turn_is_in_exactly_one_part(turns: list[Turn]) -> None:
    parts = [part(turns, BUDGET_S, number) for number in range(part(turns, BUDGET_S, 0).parts)]
    assert sorted(name for chosen in parts for name in chosen.names) == sorted(turn.name for turn in turns)


@given(TURNS, st.integers(0, 1 << 32))
def test_a_part_is_within_the_budget_or_one_turn_that_is_larger(turns: list[Turn], number: int) -> None:
    chosen = part(turns, BUDGET_S, number)
    assert chosen.seconds <= BUDGET_S or len(chosen.names) == 1


@given(TURNS)
def test_order_of_the_tests_changes_no_part(turns: list[Turn]) -> None:
    assert part(turns, BUDGET_S, 7) == part(turns[::-1], BUDGET_S, 7)


def test_parts_are_of_nearly_the_same_size() -> None:
    turns = [Turn(seconds, f"test_{seconds}") for seconds in range(1, 60)]
    sizes = sorted(part(turns, BUDGET_S, number).seconds for number in range(part(turns, BUDGET_S, 0).parts))
    assert all(larger - smaller < 10 for smaller, larger in pairwise(sizes))


def test_a_test_for_both_databases_runs_with_one_of_them_and_then_with_the_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_rows="""
        import pytest
        both = pytest.mark.parametrize("registry_url", ["sqlite", "postgresql"])
        @both
        @pytest.mark.parametrize("case", range(20))
        def test_both(registry_url, case): pass
        @pytest.mark.parametrize("registry_url", ["sqlite"])
        def test_sqlite_alone(registry_url): pass
        def test_without(): pass
        """
    )
    from tests.support.suite.turns import choose_databases  # noqa: PLC0415 - as below

    items, _ = pytester.inline_genitems()
    runs = [[*items], [*items], [*items]]
    for number, run in enumerate(runs):
        choose_databases(run, number)
    names = [{item.name for item in run} for run in runs]
    assert [len(chosen) for chosen in names] == [22, 22, 22]
    assert names[0] == names[2]
    assert names[0] & names[1] == {"test_sqlite_alone[sqlite]", "test_without"}
    assert names[0] | names[1] == {item.name for item in items}
    assert 5 <= sum("postgresql" in name for name in names[0]) <= 15, "about half have each"


def test_a_module_a_function_and_a_case_have_a_turn_each(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_slow="""
        import pytest
        pytestmark = pytest.mark.turns(30)
        def test_one(): pass
        @pytest.mark.turns(9)
        @pytest.mark.parametrize("case", "ab")
        def test_cases(case): pass
        @pytest.mark.turns(4, each=True)
        @pytest.mark.parametrize("case", "ab")
        def test_each(case): pass
        """,
        test_fast="def test_always(): pass",
    )
    pytester.makeconftest("from tests.support.suite.turns import *")
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nmarkers = ['turns(seconds, each)']")
    from tests.support.suite.turns import turn_of  # noqa: PLC0415 - pytester unloads what a run has loaded

    items, _ = pytester.inline_genitems()
    turns = {item.nodeid: turn_of(item) for item in items}
    assert turns == {
        "test_fast.py::test_always": None,
        "test_slow.py::test_one": Turn(30, "test_slow.py"),
        "test_slow.py::test_cases[a]": Turn(9, "test_slow.py::test_cases"),
        "test_slow.py::test_cases[b]": Turn(9, "test_slow.py::test_cases"),
        "test_slow.py::test_each[a]": Turn(4, "test_slow.py::test_each[a]"),
        "test_slow.py::test_each[b]": Turn(4, "test_slow.py::test_each[b]"),
    }
