"""Digests of states: equal, different, unreadable."""

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.model.recovery.state import Part, State
from tests.support.suite.cases import each_case

ONE = State({"memory": Part(1, "a" * 64), "messages": Part(4, "b" * 64)})


def test_a_state_survives_its_json() -> None:
    assert State.from_json(ONE.to_json()) == ONE


def test_what_is_the_same_differs_in_nothing() -> None:
    assert ONE.differences(State(dict(ONE.parts))) == ()


def test_what_differs_is_told_with_both_counts() -> None:
    other = State({"memory": Part(1, "a" * 64), "messages": Part(3, "c" * 64), "cron": Part(1, "d" * 64)})
    assert ONE.differences(other) == (
        "messages: 4 (bbbbbbbbbbbb), now 3 (cccccccccccc)",
        "cron: unknown, now 1 (dddddddddddd)",
    )


def test_what_nobody_could_read_is_never_the_same() -> None:
    damaged = State({"messages": Part(-1, "unreadable")})
    assert damaged.differences(damaged) == ("messages: unreadable, now unreadable",)
    assert str(damaged) == "unreadable messages"


@each_case("raw", [None, 3, "x", {"memory": 1}, {"memory": {"count": "x", "digest": ""}}])
def test_what_is_no_digest_contradicts_itself(raw: object) -> None:
    with pytest.raises(BrokenInvariantError, match="not the digest of a state"):
        State.from_json(raw)
