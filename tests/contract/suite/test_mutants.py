"""Mutants: the list fits the code, a shard of it is killed, and the runner notices what is not."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.suite.mutants import LIST, TOP, Copy, Mutant, Outcome, Verdict, problems, read, run
from tests.support.suite.shard import shard

EACH = 3
"""Mutants of a shard: twenty seconds. All of them take longer than all other tests of their packages."""

SUMS = """LIMIT = 3


def below(number: int) -> bool:
    return number < LIMIT
"""

TESTS = """import subprocess
import sys

import pytest

from hermesops.sums import below


def test_in_this_process():
    assert not below(3)


def test_in_another_process():
    code = "import sys; from hermesops.sums import below; sys.exit(below(3))"
    assert subprocess.run([sys.executable, "-c", code], cwd="/", check=False).returncode == 0


def test_other():
    assert below(1)


def test_that_is_skipped():
    pytest.skip("never")


@pytest.fixture
def broken():
    assert not below(3)


def test_with_a_fixture(broken):
    pass


def test_that_waits():
    while below(3):
        pass


def test_that_fails():
    assert below(4)


class TestBelow:
    def test_method(self):
        assert below(1)
"""

CHANGE = ("number < LIMIT", "number <= LIMIT")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one module, in a package that is installed here as well, but without that module."""
    top = tmp_path_factory.mktemp("checkout")
    subprocess.run(["git", "init", "--quiet", top], check=True)
    for name, text in {"hermesops/__init__.py": "", "hermesops/sums.py": SUMS, "tests/test_sums.py": TESTS}.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text)
    return top


@pytest.fixture(scope="module")
def copy(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    copy = Copy(checkout, tmp_path_factory.mktemp("copy"))
    yield copy
    copy.end()


def mutant(*tests: str, before: str = CHANGE[0], after: str = CHANGE[1], hangs: bool = False) -> Mutant:
    names = tuple(f"tests/test_sums.py::{test}" for test in tests)
    return Mutant("M1", "hermesops/sums.py", before, after, names, hangs)


def test_the_list_fits_the_code() -> None:
    assert problems(TOP, read(LIST)) == []


@pytest.mark.timeout(3600)
def test_a_shard_of_them_is_killed() -> None:
    # One that hangs takes until it is stopped; make soak has the time.
    listed = [each for each in read(LIST) if not each.hangs]
    parts = -(-len(listed) // EACH)
    alive = [outcome for outcome in run(TOP, listed[shard() % parts :: parts]) if outcome.verdict is not Verdict.KILLED]
    assert not alive, "\n".join(map(str, alive))


@pytest.mark.turns(3)
@pytest.mark.parametrize("test", ["test_in_this_process", "test_in_another_process"])
def test_a_bug_that_a_test_notices_is_killed_by_it(copy: Copy, test: str) -> None:
    outcome = copy.run(mutant("test_other", test))
    assert (outcome.verdict, outcome.killed_by, outcome.place) == (Verdict.KILLED, test, "hermesops/sums.py:5")


@pytest.mark.turns(2)
def test_a_bug_that_no_test_notices_survives(copy: Copy) -> None:
    outcome = copy.run(mutant("test_other", "test_that_is_skipped"))
    assert (outcome.verdict, outcome.killed_by) == (Verdict.SURVIVED, "")


@pytest.mark.turns(2)
def test_a_change_that_is_no_bug_survives(copy: Copy) -> None:
    outcome = copy.run(mutant("test_in_this_process", "test_in_another_process", after="LIMIT > number"))
    assert outcome.verdict is Verdict.SURVIVED


@pytest.mark.turns(5)
@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("test_with_a_fixture", CHANGE[1]),
        ("test_of_another_name", CHANGE[1]),
        ("test_other", "number < LIMITS"),
        ("test_other", "number <"),
    ],
    ids=["the fixture fails", "no such test", "it crashes", "it cannot be imported"],
)
def test_what_is_no_failed_test_kills_nothing(copy: Copy, test: str, after: str) -> None:
    assert copy.run(mutant(test, after=after)).verdict is Verdict.BROKE


@pytest.mark.turns(4)
def test_a_hang_kills_only_what_is_listed_to_hang(copy: Copy) -> None:
    assert copy.run(mutant("test_that_waits"), hang_s=1).verdict is Verdict.HUNG
    assert copy.run(mutant("test_that_waits", hangs=True), hang_s=1).verdict is Verdict.KILLED


@pytest.mark.turns(4)
def test_the_next_mutant_of_a_file_finds_it_as_it_was(copy: Copy) -> None:
    both = mutant("test_in_this_process", before="LIMIT = 3", after="LIMIT = 4"), mutant("test_in_this_process")
    assert [copy.run(each).verdict for each in both] == [Verdict.KILLED] * 2
    assert copy.check(["tests/test_sums.py::test_in_this_process"]) == ""


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("test", "expected"), [("test_that_fails", "FAILED.*fails"), ("test_that_is_skipped", "never")]
)
def test_a_test_that_does_not_pass_without_a_mutant_is_refused(checkout: Path, test: str, expected: str) -> None:
    (outcome,) = run(checkout, [mutant("test_in_this_process", test)])
    assert outcome.verdict is Verdict.BROKE
    assert re.search(rf"(?s)without a mutant.*{expected}", outcome.output)


@pytest.mark.turns(3)
def test_a_test_runs_without_a_mutant_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    check = Copy.check

    def recorded(copy: Copy, tests: Sequence[str]) -> str:
        checked.extend(tests)
        return check(copy, tests)

    monkeypatch.setattr(Copy, "check", recorded)
    bug = mutant("test_in_this_process")
    assert [outcome.verdict for outcome in run(checkout, [bug, bug])] == [Verdict.KILLED] * 2
    assert checked == list(bug.tests)


@pytest.mark.turns(3)
def test_one_bad_test_keeps_no_other_mutant_from_its_verdict(checkout: Path) -> None:
    pair = mutant("test_that_fails"), mutant("test_in_this_process")
    assert [outcome.verdict for outcome in run(checkout, pair)] == [Verdict.BROKE, Verdict.KILLED]


def test_the_checkout_itself_stays_as_it_is(checkout: Path) -> None:
    (outcome,) = run(checkout, [mutant("test_in_this_process")])
    assert outcome.verdict is Verdict.KILLED
    assert (checkout / "hermesops/sums.py").read_text() == SUMS


def test_a_survivor_says_how_to_run_it_again() -> None:
    text = str(Outcome(mutant("test_other"), "hermesops/sums.py:5", Verdict.SURVIVED, "", 1.0, "1 passed"))
    assert text.splitlines() == [
        "mutant M1 survived: hermesops/sums.py:5",
        "- number < LIMIT",
        "+ number <= LIMIT",
        "test: tests/test_sums.py::test_other",
        "again: make mutants T=M1",
        "1 passed",
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"before": "number > LIMIT"}, "before occurs 0 times"),
        ({"before": "LIMIT"}, "before occurs 2 times"),
        ({"before": ""}, "before occurs 0 times"),
        ({"after": CHANGE[0]}, "after is the same as before"),
        ({"after": "number <"}, "does not compile"),
        ({"file": "hermesops/products.py"}, "before occurs 0 times in hermesops/products.py"),
        ({"tests": ()}, "it lists no tests"),
        ({"tests": ("tests/test_sums.py",)}, "there is no test tests/test_sums.py"),
        ({"tests": ("tests/test_sums.py::test_of_another_name",)}, "there is no test"),
        ({"tests": ("tests/test_products.py::test_other",)}, "there is no test"),
    ],
)
def test_an_entry_that_does_not_fit_the_code_is_named(checkout: Path, change: dict[str, Any], problem: str) -> None:
    fits = mutant("test_other", "test_in_this_process[a-b]", "TestBelow::test_method")
    assert problems(checkout, [fits]) == []
    (output,) = problems(checkout, [replace(fits, **change)])
    assert output.startswith("mutant M1: ")
    assert problem in output


def test_an_id_belongs_to_one_mutant(checkout: Path) -> None:
    assert problems(checkout, [mutant("test_other")] * 2) == ["mutant M1: listed 2 times"]


ENTRY = """[[mutant]]
id = "M1"
file = "hermesops/sums.py"
before = '''number < LIMIT'''
after = "number <= LIMIT"
tests = ["tests/test_sums.py::test_other"]
"""


def test_an_entry_is_read(tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(ENTRY)
    assert read(tmp_path / "list.toml") == (mutant("test_other"),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{ENTRY}hang = true\n", "M1(?s:.*)hang"),
        (ENTRY.replace('id = "M1"\n', ""), "None(?s:.*)id"),
        (ENTRY.replace('"M1"', "1"), "valid string"),
        (f"{ENTRY}tests = []\n", "overwrite"),
        ("", "nothing else"),
    ],
    ids=["an unknown key", "no id", "an id of another type", "no TOML", "no mutants"],
)
def test_a_malformed_list_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "list.toml").write_text(text)
    with pytest.raises(ValueError, match=problem):
        read(tmp_path / "list.toml")
