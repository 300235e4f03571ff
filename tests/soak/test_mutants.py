"""Every mutant of the list is killed by its tests; ``make test`` runs a shard of them."""

import pytest

from tests.support.suite.mutants import LIST, read, run_and_show

pytestmark = pytest.mark.timeout(4 * 3600)


def test_every_mutant_is_killed() -> None:
    assert [str(alive) for alive in run_and_show(read(LIST))] == []
