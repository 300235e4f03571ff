"""What is built once, before any test runs: only what is missing, each with its line, and nobody waits for nothing."""

import asyncio
import os
import subprocess
from collections.abc import Sequence

import pytest

from hermesops.base import assets
from tests.support.suite.built import Part, Reporter, build, parts


class Shop:
    """Parts that only say that they were made."""

    def __init__(self) -> None:
        self.made, self.said = list[str](), list[str]()

    def part(self, name: str, *, is_there: bool = False, problem: str = "", needs: asyncio.Event | None = None) -> Part:
        async def make(_: Reporter) -> None:
            if needs:
                await needs.wait()
            if problem:
                raise OSError(problem)
            self.made.append(name)

        return Part(name, lambda: is_there, make)


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_only_what_is_missing_is_made_in_order_with_its_seconds(shop: Shop) -> None:
    line = [shop.part("go", is_there=True), shop.part("versitygw"), shop.part("Loki")]
    assert await build([line], shop.said.append)
    assert shop.made == ["versitygw", "Loki"]
    assert [text for text in shop.said if "after" in text] == [
        "==> versitygw is there after 0 s",
        "==> Loki is there after 0 s",
    ]


async def test_nothing_is_said_where_everything_is_there(shop: Shop) -> None:
    assert await build([[shop.part("base", is_there=True)]], shop.said.append)
    assert shop.said == []


async def test_what_cannot_be_had_is_named_and_keeps_nothing_else_from_being_made(shop: Shop) -> None:
    line = [shop.part("base", problem="no mirror"), shop.part("nginx")]
    assert not await build([line], shop.said.append)
    assert shop.made == ["nginx"]
    assert "==> base cannot be had: no mirror" in shop.said


async def test_lines_go_side_by_side(shop: Shop) -> None:
    event = asyncio.Event()

    async def tell(_: Reporter) -> None:
        event.set()

    async with asyncio.timeout(20):
        assert await build([[shop.part("Loki", needs=event)], [Part("base", lambda: False, tell)]], shop.said.append)


async def test_a_long_part_says_now_and_then_how_far_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def compile_all(report: Reporter) -> None:
        report("packages compiled: 1")
        monkeypatch.setattr("tests.support.suite.built._TELL_EVERY_S", 0.0)
        report("packages compiled: 2")

    assert await build([[Part("Loki", lambda: False, compile_all)]], shop.said.append)
    assert [text for text in shop.said if "compiled" in text] == ["==> packages compiled: 2"]


def test_a_look_starts_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a look has to be quick")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    names = [part.name for line in parts() for part in line if part.is_there() in {True, False}]
    assert {"actionlint", "versitygw", "Loki", "LiteLLM"} < set(names)
    assert ("the base" in names) == (os.geteuid() == 0)


@pytest.mark.parametrize("target", ["test", "soak", "coverage", "mutants"])
def test_make_builds_it_before_all_tests(target: str) -> None:
    text = recipe(target)
    assert text.index("tests.support.suite.built") < text.index(
        "tests.support.suite.mutants" if target == "mutants" else "pytest "
    )


@pytest.mark.parametrize("words", [["test", "T=-k word"], ["mutants", "T=L12"], ["test-fast"]])
def test_whoever_chooses_tests_waits_only_for_what_those_need(words: Sequence[str]) -> None:
    assert "tests.support.suite.built" not in recipe(*words)


def recipe(*words: str) -> str:
    """What make would do, whatever the make that runs these tests was told."""
    place = assets.folder("images").parent
    command = ["env", "--unset=MAKEFLAGS", "--unset=MAKEOVERRIDES", "--unset=T", "make", "--dry-run", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout
