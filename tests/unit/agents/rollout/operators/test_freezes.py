"""Freezes: none without a reason, and a lifted one holds no more."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.agents.rollout.operators.freezes import Freezes
from hermesops.errors import UsageError
from tests.support.real.stores.registries import TurnedClock, registry_at

CLOCK = TurnedClock()


@pytest.fixture
def freezes(tmp_path: Path) -> Iterator[Freezes]:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=CLOCK)
    yield Freezes(registry)
    registry.close()


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_freeze_has_a_reason(freezes: Freezes, reason: str) -> None:
    with pytest.raises(UsageError, match="a freeze needs a reason"):
        freezes.set(begins_at=None, ends_at=None, reason=reason)
    assert freezes.list(past=True) == ()


def test_a_lifted_freeze_is_of_the_past(freezes: Freezes) -> None:
    freeze = freezes.set(begins_at=None, ends_at=CLOCK() + timedelta(hours=1), reason="quarter end")
    assert freezes.list() == (freeze,)
    lifted = freezes.lift("")
    assert (lifted.id, lifted.lifted_at) == (freeze.id, CLOCK())
    assert freezes.list() == ()
    assert freezes.list(past=True) == (lifted,)
    assert freezes.registry.audit.list(limit=1)[0].why == "lifted"
