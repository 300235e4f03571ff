"""Mutants: planted bugs. Each is planted in a copy of the checkout, where one of the tests listed for it has to fail.

``python -m tests.support.suite.mutants [ID ...]`` runs all of ``tests/mutants.toml``, or those, and prints a table.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.util import cache_from_source
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from shutil import copy2, rmtree
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from tests.support.suite.warm_pytest import WarmPytest

TOP = Path(__file__).parents[3]
LIST = TOP / "tests" / "mutants.toml"

HANG_S = 120
"""A test that takes longer hangs; without a bug, each takes some seconds."""

BATCH = 20
"""Mutants that one worker runs at once, and shows together."""

_WORKERS_EACH = 2
"""Workers of a core: half of the time, a test waits for something."""

_GRACE_S = 60
_CRASHES = ("ImportError", "IndentationError", "ModuleNotFoundError", "NameError", "SyntaxError")


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Mutant:
    """One planted bug.

    Attributes:
        id: Unique in the list.
        file: Where it is planted, relative to the checkout.
        before: Text that occurs exactly once in the file.
        after: What replaces it.
        tests: Ids of tests, each ``file::function``; one of them has to fail.
        hangs: Whether a test that never ends counts as failed.
    """

    id: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    hangs: bool = False

    def plant(self, text: str) -> str:
        """The file's text with the bug in it."""
        return text.replace(self.before, self.after)

    def place(self, text: str) -> str:
        """The file, with the line where the bug begins."""
        return f"{self.file}:{text[: text.index(self.before)].count(chr(10)) + 1}"


class Verdict(StrEnum):
    """What the tests say about a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    HUNG = "hung"
    """The tests did not end, and the mutant is not listed as one that hangs."""
    BROKE = "broke"
    """No test failed, but pytest, a fixture or an import did, or one of the tests fails without the mutant as well."""


@dataclass(frozen=True)
class Outcome:
    """The result of one mutant.

    Attributes:
        mutant: Which one.
        place: File and line.
        verdict: What its tests say.
        killed_by: The test that failed, with its parameters; empty where none did.
        seconds: Time from planting to verdict.
        output: What pytest printed.
    """

    mutant: Mutant
    place: str
    verdict: Verdict
    killed_by: str
    seconds: float
    output: str

    def __str__(self) -> str:
        """What to mend, and how to run it again."""
        mutant = self.mutant
        lines = [
            f"mutant {mutant.id} {self.verdict}: {self.place}",
            *(f"- {line}" for line in mutant.before.splitlines()),
            *(f"+ {line}" for line in mutant.after.splitlines()),
            *(f"test: {test}" for test in mutant.tests),
            f"again: make mutants T={mutant.id}",
        ]
        return "\n".join([*lines, self.output])


def read(path: Path) -> tuple[Mutant, ...]:
    """The mutants of a list.

    Raises:
        ValueError: It is no TOML, or an entry has a missing, unknown or ill-typed key.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if set(content) != {"mutant"}:
        raise ValueError(f"{path} holds [[mutant]] and nothing else")
    return tuple(map(_parse, content["mutant"]))


def _parse(entry: dict[str, Any]) -> Mutant:
    try:
        return TypeAdapter(Mutant).validate_python(entry)
    except ValidationError as error:
        raise ValueError(f"mutant {entry.get('id')}: {error}") from error


def problems(top: Path, mutants: Iterable[Mutant]) -> list[str]:
    """What is wrong with these mutants of that checkout, a line each; runs none of them."""
    mutants = tuple(mutants)
    counts = Counter(mutant.id for mutant in mutants)
    twice = [f"mutant {name}: listed {count} times" for name, count in counts.items() if count > 1]
    return twice + [f"mutant {mutant.id}: {problem}" for mutant in mutants for problem in _problems(top, mutant)]


def _problems(top: Path, mutant: Mutant) -> Iterator[str]:
    path = top / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    count = text.count(mutant.before) if mutant.before else 0
    if count != 1:
        yield f"before occurs {count} times in {mutant.file}, not once"
    elif mutant.before == mutant.after:
        yield "after is the same as before"
    elif mutant.file.endswith(".py") and not _compiles(mutant.plant(text)):
        yield f"{mutant.file} does not compile with it"
    if not mutant.tests:
        yield "it lists no tests"
    yield from (f"there is no test {test}" for test in mutant.tests if not _is_test(top, test))


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _is_test(top: Path, test: str) -> bool:
    file, _, function = test.partition("[")[0].partition("::")
    return (top / file).is_file() and function in _functions(top / file)


@cache
def _functions(path: Path) -> frozenset[str]:
    """Names of a module's functions; a method's is ``Class::method``."""
    bodies = {"": ast.parse(path.read_text(encoding="utf-8")).body}
    bodies |= {f"{node.name}::": node.body for node in bodies[""] if isinstance(node, ast.ClassDef)}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        f"{owner}{node.name}" for owner, body in bodies.items() for node in body if isinstance(node, kinds)
    )


@dataclass(frozen=True)
class _Ran:
    """What pytest did.

    Attributes:
        code: Its exit code; None where it did not end and was killed.
        failed: Names of failed tests, each with its message.
        skipped: Whether a test was skipped.
        output: What it printed.
    """

    code: int | None
    failed: dict[str, str]
    skipped: bool
    output: str


class Copy:
    """A copy of the checkout, in which one mutant at a time is planted."""

    def __init__(self, top: Path, folder: Path) -> None:
        """Make it.

        Args:
            top: The checkout; what git ignores there is left out.
            folder: Is made; holds the copy and all that its tests write.
        """
        self._folder = folder
        self._top = folder / "checkout"
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=top, capture_output=True, text=True, check=True).stdout
        for name in listed.split("\0"):
            if name and (top / name).is_file():
                (self._top / name).parent.mkdir(parents=True, exist_ok=True)
                copy2(top / name, self._top / name)
        self._warm = WarmPytest(self._top, self._environment())

    def libraries(self, tests: Sequence[str]) -> list[str]:
        """Names of the libraries that these tests load when they are collected, for ``load``."""
        self._pytest(tests, HANG_S, "--collect-only")
        names: list[str] = json.loads((self._folder / "output.libraries").read_text(encoding="utf-8"))
        return names

    def load(self, libraries: Sequence[str]) -> None:
        """Import these libraries once for all runs."""
        self._warm.load(libraries)

    def check(self, tests: Sequence[str]) -> str:
        """Run tests without a mutant.

        Returns:
            Why they cannot tell a mutant, as one of them fails or is skipped; empty where all pass.
        """
        ran = self._pytest(tests, HANG_S)
        if ran.code == pytest.ExitCode.OK and not ran.skipped:
            return ""
        return f"without a mutant, these tests have to pass and none is to be skipped\n{ran.output}"

    def run(self, mutant: Mutant, hang_s: int = HANG_S) -> Outcome:
        """Plant a mutant, run its tests until one fails, and remove it."""
        began = time.monotonic()
        with self._planted(mutant) as place:
            ran = self._pytest(mutant.tests, hang_s)
        return Outcome(mutant, place, *_judge(mutant, ran), time.monotonic() - began, ran.output)

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[str]:
        path = self._top / mutant.file
        text = path.read_text(encoding="utf-8")
        _write(path, mutant.plant(text))
        try:
            yield mutant.place(text)
        finally:
            _write(path, text)

    def end(self) -> None:
        """End the process that runs the tests."""
        self._warm.end()

    def _pytest(self, tests: Sequence[str], hang_s: int, *options: str) -> _Ran:
        report, temporary, output = (self._folder / name for name in ("report.xml", "t", "output"))
        report.unlink(missing_ok=True)
        words = ["-x", "-q", "-ra", "-n", "0", "-p", "no:cacheprovider", f"--timeout={hang_s}"]
        words += [f"--basetemp={temporary}", f"--junitxml={report}", *options, *tests]
        code = self._warm.run(words, output, hang_s * len(tests) + _GRACE_S)
        text = output.read_text(encoding="utf-8", errors="replace")
        rmtree(temporary, ignore_errors=True)
        return _Ran(code, *_read_report(report), text)

    def _environment(self) -> dict[str, str]:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251 - of this computer
        home = str(self._folder)
        # PYTHONPATH comes before the checkout that the environment's editable installation names, so the programs that
        # a test starts run the copy as well.
        return {
            "PATH": programs,
            "LANG": "C.UTF-8",
            "HOME": home,
            "HERMESOPS_HOME": home,
            "HERMESOPS_TEST_ALL": "1",
            "PYTHONPATH": str(self._top),
        }


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Python takes a compiled file for that of any text with the same size and the same second.
    Path(cache_from_source(path)).unlink(missing_ok=True)


def _read_report(path: Path) -> tuple[dict[str, str], bool]:
    """The failed tests, each with its message, and whether one was skipped."""
    if not path.exists():
        return {}, False
    cases = list(ET.parse(path).iter("testcase"))  # noqa: S314 - pytest's own
    failed = {case.get("name", ""): e.get("message", "") for case in cases for e in case.iter("failure")}
    return failed, any(case.find("skipped") is not None for case in cases)


def _judge(mutant: Mutant, ran: _Ran) -> tuple[Verdict, str]:
    """The verdict, and the test that killed it."""
    test, message = next(iter(ran.failed.items()), ("", ""))
    if ran.code == pytest.ExitCode.OK:
        return Verdict.SURVIVED, ""
    if ran.code is None or message.startswith("Failed: Timeout"):
        return (Verdict.KILLED, "a hang") if mutant.hangs else (Verdict.HUNG, "")
    if ran.code != pytest.ExitCode.TESTS_FAILED or not ran.failed or message.startswith(_CRASHES):
        return Verdict.BROKE, ""
    return Verdict.KILLED, test


def run(top: Path, mutants: Sequence[Mutant], workers: int = 1) -> Iterator[Outcome]:
    """Run mutants, in the given order, with a copy of the checkout for each worker.

    A test is run without a mutant before its first one; where it does not pass, its mutants are ``BROKE``.
    """
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as name,
        ExitStack() as stack,
        ThreadPoolExecutor(workers) as pool,
    ):
        copies = [Copy(top, Path(name, str(number))) for number in range(workers)]
        for copy in copies:
            stack.callback(copy.end)
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        libraries = copies[0].libraries(tests)
        for copy in copies:
            copy.load(libraries)
        free: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            free.put(copy)
        passed: set[str] = set()

        def run_in_a_free_copy(batch: Sequence[Mutant]) -> list[Outcome]:
            copy = free.get()
            try:
                _check_together(copy, batch, passed)
                return [_check_and_run(copy, mutant, passed) for mutant in batch]
            finally:
                free.put(copy)

        batches = [mutants[at : at + BATCH] for at in range(0, len(mutants), BATCH)]
        yield from chain.from_iterable(pool.map(run_in_a_free_copy, batches))


def _check_together(copy: Copy, mutants: Sequence[Mutant], passed: set[str]) -> None:
    """Run the tests of several mutants without any in one run, a fourth of the time of as many runs."""
    unseen = {test for mutant in mutants for test in mutant.tests} - passed
    if len(mutants) > 1 and unseen and not copy.check(sorted(unseen)):
        passed.update(unseen)


def _check_and_run(copy: Copy, mutant: Mutant, passed: set[str]) -> Outcome:
    """Run a mutant, after those of its tests that are not among the passed ones, which they join."""
    began = time.monotonic()
    unseen = [test for test in mutant.tests if test not in passed]
    if unseen and (problem := copy.check(unseen)):
        return Outcome(mutant, mutant.file, Verdict.BROKE, "", time.monotonic() - began, problem)
    passed.update(unseen)
    return copy.run(mutant)


def run_and_show(mutants: Sequence[Mutant]) -> list[Outcome]:
    """Run mutants of this checkout and print a table; returns those that were not killed."""
    console = Console(width=140)
    table = Table("id", "place", Column("killed by", no_wrap=True), "seconds", title="mutants")
    alive = []
    for outcome in run(TOP, mutants, workers=_WORKERS_EACH * len(os.sched_getaffinity(0))):
        mutant = outcome.mutant
        console.print(f"{mutant.id} {outcome.verdict}", markup=False, highlight=False)
        table.add_row(
            mutant.id, outcome.place, escape(outcome.killed_by) or outcome.verdict.upper(), f"{outcome.seconds:.1f}"
        )
        if outcome.verdict is not Verdict.KILLED:
            alive.append(outcome)
    console.print(table)
    console.print(f"{len(mutants) - len(alive)} of {len(mutants)} mutants killed")
    return alive


def main(ids: Sequence[str]) -> None:
    """Run the listed mutants with these ids, or all; exits with 1 unless all were killed."""
    listed = read(LIST)
    unknown = [f"there is no mutant {name}" for name in ids if name not in {mutant.id for mutant in listed}]
    if wrong := [*unknown, *problems(TOP, listed)]:
        sys.exit("\n".join(wrong))
    alive = run_and_show([mutant for mutant in listed if not ids or mutant.id in ids])
    sys.exit("\n".join(map(str, alive)) or None)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
