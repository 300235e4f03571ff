"""The file by which the platform's service tells machines a wrong time."""

import time
from pathlib import Path

import pytest

from hermesops.base.waiting import pause_blocking
from hermesops.localcloud.faults.date_shift import shifted_time, write
from hermesops.localcloud.faults.rules import FaultOrder

SHIFTED = FaultOrder("date-shifted")


def shift(file: Path) -> float:
    return shifted_time(file) - time.time()


def test_the_newest_fault_counts_until_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "date-shift.json"
    assert shift(file) == pytest.approx(0, abs=1)
    other = FaultOrder("server-error").to_row()
    write(file, [SHIFTED.to_row(), FaultOrder("date-shifted", seconds=600).to_row(), other])
    assert shift(file) == pytest.approx(600, abs=1)
    write(file, [SHIFTED.to_row(), other])
    assert shift(file) == pytest.approx(42, abs=1)
    write(file, [other])
    assert not file.exists()
    write(file, [])


def test_it_ends_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "date-shift.json"
    write(file, [FaultOrder("date-shifted", for_s=1).to_row()])
    assert shift(file) == pytest.approx(42, abs=0.5)
    pause_blocking(1.01)
    assert shift(file) == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"seconds": "x", "until": null}', '{"seconds": 1, "until": "x"}', "1"]
)
def test_a_file_that_is_no_such_fault_shifts_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "date-shift.json"
    file.write_text(text)
    assert shift(file) == pytest.approx(0, abs=0.5)


def test_it_lasts_unless_bounded() -> None:
    assert SHIFTED.to_row().times == 0
