"""A shard of what tests/soak/test_vendor_faults.py does whole, another one with each commit."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermesops.localcloud.faults.kinds import FaultKind
from tests.support.suite.shard import shard
from tests.support.vendor import faulty_lives
from tests.support.vendor.faulty_lives import Act


@pytest.mark.parametrize(
    ("acts", "kinds"),
    [
        pytest.param(faulty_lives.ACTS, faulty_lives.KINDS, id="cell", marks=pytest.mark.turns(15, each=True)),
        pytest.param(
            faulty_lives.AGENTS_ACTS, faulty_lives.KINDS_OF_AGENTS, id="agent", marks=pytest.mark.turns(60, each=True)
        ),
    ],
)
def test_what_fails_with_the_vendor_is_finished_without_the_fault(
    acts: Sequence[Act], kinds: Sequence[FaultKind], tmp_path: Path
) -> None:
    lives = [(kind, times) for kind in kinds for times in (1, 3)]
    life = lives[shard() % len(lives)]
    trials = faulty_lives.tried_side_by_side(tmp_path, [life], acts, at_once=1)
    assert len(trials) == len(acts)
    assert [trial for trial in trials if trial.wrong] == []
