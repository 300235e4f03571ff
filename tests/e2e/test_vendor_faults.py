"""A shard of what tests/soak/test_vendor_faults.py does whole, another one with each commit."""

from pathlib import Path

from tests.support import faulty_lives
from tests.support.shard import shard

LIVES = [(kind, times) for kind in faulty_lives.KINDS for times in (1, 3)]


def test_what_fails_with_the_vendor_is_finished_without_the_fault(tmp_path: Path) -> None:
    life = LIVES[shard() % len(LIVES)]
    trials = faulty_lives.tried_side_by_side(tmp_path, [life], at_once=1)
    assert len(trials) == len(faulty_lives.ACTS)
    assert [trial for trial in trials if trial.wrong] == []
