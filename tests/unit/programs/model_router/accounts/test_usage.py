"""Usage on its way to the registry: nothing is lost, nothing counts twice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from hermesops.errors import UnavailableError
from hermesops.model.billing.model_usage import Usage, summed
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.usage import Spool

ONE = Usage(InstanceId("ada"), date(2026, 11, 26), "claude-haiku", "anthropic", "200", 1, 20, 5, 36)


class Rows:
    """The registry's table, with its memory of batches."""

    def __init__(self) -> None:
        self.batches: dict[str, list[Usage]] = {}
        self.fails_after = False
        self.is_away = False

    def write(self, batch: str, rows: Sequence[Usage]) -> None:
        if self.is_away:
            raise UnavailableError("away")
        self.batches.setdefault(batch, list(rows))
        if self.fails_after:
            raise UnavailableError("the answer was lost")

    @property
    def requests(self) -> int:
        return sum(row.requests for rows in self.batches.values() for row in rows)


def test_sums_have_one_row_for_each_key() -> None:
    other = replace(ONE, outcome="429", input_tokens=0, output_tokens=0, micros=0)
    assert summed([ONE, other, ONE]) == [
        replace(ONE, requests=2, input_tokens=40, output_tokens=10, micros=72),
        other,
    ]


def test_what_was_added_is_delivered_once(tmp_path: Path) -> None:
    rows = Rows()
    spool = Spool(tmp_path, rows.write)
    for _ in range(3):
        spool.add(ONE)
    spool.deliver()
    spool.deliver()
    assert (rows.requests, len(rows.batches), spool.pending_bytes, list(tmp_path.iterdir())) == (3, 1, 0, [])


def test_a_lost_answer_counts_once(tmp_path: Path) -> None:
    rows = Rows()
    spool = Spool(tmp_path, rows.write)
    spool.add(ONE)
    rows.fails_after = True
    with pytest.raises(UnavailableError, match="the answer was lost"):
        spool.deliver()
    spool.add(ONE)
    rows.fails_after = False
    spool.deliver()
    assert rows.requests == 2


def test_a_killed_router_loses_nothing_that_was_added(tmp_path: Path) -> None:
    rows = Rows()
    Spool(tmp_path, rows.write).add(ONE)  # and no more of this one
    after = Spool(tmp_path, rows.write)
    assert after.pending_bytes > 0
    after.add(ONE)
    after.deliver()
    assert rows.requests == 2


def test_a_half_written_line_costs_only_itself(tmp_path: Path) -> None:
    rows = Rows()
    Spool(tmp_path, rows.write).add(ONE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + b'{"instance_id": "a\n[]\n\x00\n')
    Spool(tmp_path, rows.write).deliver()
    assert rows.requests == 1


def test_what_has_no_place_is_counted_as_lost_and_the_rest_arrives(tmp_path: Path) -> None:
    rows = Rows()
    rows.is_away = True
    spool = Spool(tmp_path, rows.write, most_bytes=500)
    for _ in range(10):
        spool.add(ONE)
    assert 0 < spool.lost < 10
    with pytest.raises(UnavailableError, match="away"):
        spool.deliver()
    rows.is_away = False
    spool.deliver()
    assert rows.requests + spool.lost == 10


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    Spool(tmp_path, Rows().write).deliver()
    assert (tmp_path / "notes").exists()
