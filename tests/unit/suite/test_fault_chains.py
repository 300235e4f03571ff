"""What is judged of the alerts beside a fault's own: those that it brings about itself may fire before it alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.faults import chains
from tests.support.faults.chains import Chain, Outcome
from tests.support.faults.watched import About, Firing, Record

MALFORMED: About = ("DatabaseMalformed", "ada")
DOWN: About = ("GatewayDown", "ada")
CHAIN = Chain("database-malformed", MALFORMED[0], before=frozenset({DOWN[0]}))


def judged(chain: Chain, *firings: Firing) -> list[str]:
    async def ask() -> tuple[()]:
        return ()

    record = Record(ask, {}, list(firings))
    fleet: Any = SimpleNamespace(record=record, monitor=SimpleNamespace(repairs=lambda _: set()))
    outcome = Outcome(chain)
    chains._judge(chain, fleet, outcome, 100.0, ())
    return outcome.wrong


@pytest.mark.parametrize(
    ("down", "is_right"),
    [
        (Firing(DOWN, 147.0, told_s=83.0, told_at=230.0, ended=273.0), True),
        (Firing(DOWN, 147.0, told_s=83.0, told_at=300.0), False),
        (Firing(DOWN, 314.0, told_s=40.0, told_at=354.0), False),
        (Firing(DOWN, 314.0, told_s=0.0), True),
    ],
    ids=["before", "through", "after", "muted"],
)
def test_an_alert_of_the_fault_itself_may_fire_until_the_alert_mutes_it(down: Firing, is_right: bool) -> None:  # noqa: FBT001 - a case
    wrong = judged(CHAIN, down, Firing(MALFORMED, 232.0, told_s=124.0, told_at=362.0))
    assert (wrong == []) == is_right, wrong


def test_without_the_alert_or_unless_the_chain_says_so_it_is_wrong() -> None:
    down = Firing(DOWN, 147.0, told_s=83.0, told_at=230.0, ended=273.0)
    assert judged(CHAIN, down)
    assert judged(Chain("x", MALFORMED[0]), down, Firing(MALFORMED, 232.0, told_s=124.0, told_at=362.0))
