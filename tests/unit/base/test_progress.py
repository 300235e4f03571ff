"""A long step says how far it is, and how long it took last time."""

from pathlib import Path

import pytest

from hermesops.base.progress import Durations, Past, Progress, ProgressLine


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(durations: Durations | None) -> tuple[Progress, list[str], Clock]:
    lines: list[str] = []
    clock = Clock()
    return Progress("roles", "tasks", lines.append, durations, clock), lines, clock


def test_the_first_time_only_what_was_done_is_known(tmp_path: Path) -> None:
    done, lines, clock = progress(Durations(tmp_path / "of" / "durations.json"))
    done.step("install")
    clock.now += 130
    done.step("start")
    done.end()
    assert lines == [
        "roles: 1 tasks, 0 s so far: install",
        "roles: 2 tasks, 2 min so far: start",
        "roles: 2 tasks in 2 min",
    ]
    again, lines, clock = progress(Durations(tmp_path / "of" / "durations.json"))
    again.step("install")
    assert lines == ["roles: 1 of 2 tasks, about 65 s left, took 2 min last time: install"]
    assert [line.share for line in lines if isinstance(line, ProgressLine)] == [0.5]


def test_more_parts_than_last_time_have_no_total(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "durations.json")
    durations.note("roles", Past(10, 1))
    done, lines, _ = progress(durations)
    done.step("a")
    done.step("b")
    assert lines[1] == "roles: 2 tasks, 0 s so far: b"


def test_the_rest_of_an_interrupted_step_is_no_measure_of_the_next(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "durations.json")
    durations.note("roles", Past(500, 50))
    done, _, _ = progress(durations)
    for number in range(24):
        done.step(str(number))
    done.end()
    assert durations.last("roles") == Past(500, 50)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"roles": 7}', '{"roles": {"seconds": "x", "count": 1}}', '{"roles": {"seconds": 0, "count": 0}}'],
)
def test_a_damaged_file_is_nothing_known(tmp_path: Path, text: str) -> None:
    durations = Durations(tmp_path / "durations.json")
    durations.file.write_text(text)
    assert durations.last("roles") is None
    durations.note("roles", Past(3, 2))
    assert durations.last("roles") == Past(3, 2)


def test_a_disk_that_takes_nothing_stops_no_work_and_names_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Durations(tmp_path / "file" / "durations.json").note("roles", Past(3, 2))
    durations = Durations(tmp_path / "durations.json")
    for number in range(120):
        durations.note(f"n{number}", Past(3, 2))
    assert durations.last("n19") is None
    assert durations.last("n20") == Past(3, 2)


def test_a_total_that_is_known_beforehand_counts_and_the_last_time_gives_the_pace(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "durations.json")
    lines: list[str] = []
    clock = Clock()
    first = Progress("stack of cell1", "changes", lines.append, durations, clock, total=4)
    assert str(first.line("create a")) == "stack of cell1: 0 of 4 changes, 0 s so far: create a"
    first.step("a is done")
    assert lines[-1] == "stack of cell1: 1 of 4 changes, 0 s so far: a is done"
    durations.note("stack of cell1", Past(20, 2))
    then = Progress("stack of cell1", "changes", lines.append, durations, clock, total=4)
    then.step("a is done")
    assert lines[-1] == "stack of cell1: 1 of 4 changes, about 30 s left, took 20 s last time: a is done"
