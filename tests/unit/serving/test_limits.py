"""Limits per user."""

import pytest

from hermesops.serving.limits import MOST_STREAMS, RATES, Limits, TooManyError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_user_who_asks_too_often_waits_and_no_other_user_does() -> None:
    clock = Clock()
    limits, rate = Limits(clock), RATES["turn"]
    for _ in range(int(rate.burst)):
        limits.admit("ada", "turn")
    with pytest.raises(TooManyError, match="too many requests") as refused:
        limits.admit("ada", "turn")
    assert refused.value.retry_after_s == 2
    limits.admit("grace", "turn")
    limits.admit("ada", "read")
    clock.now += refused.value.retry_after_s
    limits.admit("ada", "turn")
    with pytest.raises(TooManyError, match="too many requests"):
        limits.admit("ada", "turn")


def test_streams_are_counted_while_they_are_open() -> None:
    limits = Limits(Clock())
    held = [limits.stream("ada") for _ in range(MOST_STREAMS)]
    for stream in held:
        limits.refuse_stream("ada")
        stream.__enter__()
    with pytest.raises(TooManyError, match="more than 8 streams"):
        limits.refuse_stream("ada")
    limits.refuse_stream("grace")
    held[0].__exit__(None, None, None)
    limits.refuse_stream("ada")
