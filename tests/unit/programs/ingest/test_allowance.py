"""What a sender has left: it comes back by the second, and a clock that jumps gives nobody anything."""

from hermesops.programs.ingest.allowance import DEBT_S, Allowance


def test_what_was_used_comes_back_by_the_second_and_no_more_than_there_was() -> None:
    allowance = Allowance(per_s=2, most=10, at_s=100)
    allowance.use(9)
    assert not allowance.is_overdrawn(100)
    allowance.use(11)  # what was let in is let through, and waited for afterwards
    assert allowance.is_overdrawn(104.9)
    assert not allowance.is_overdrawn(105.1)
    assert not allowance.is_overdrawn(10_000)
    allowance.use(10)
    assert allowance.is_overdrawn(10_000), "what was not used for long is no more than `most`"


def test_a_clock_that_is_put_back_gives_nothing_back_and_holds_nobody_up() -> None:
    allowance = Allowance(per_s=1, most=10, at_s=1_000)
    allowance.use(20)
    assert allowance.is_overdrawn(1_000)
    assert allowance.is_overdrawn(500)
    assert not allowance.is_overdrawn(511), "from then on it comes back as before"


def test_the_largest_debt_is_replenished_within_two_minutes() -> None:
    allowance = Allowance(per_s=2, most=10, at_s=100)
    allowance.use(1_000_000)
    assert allowance.is_overdrawn(100 + DEBT_S - 1)
    assert not allowance.is_overdrawn(100 + DEBT_S + 1)
