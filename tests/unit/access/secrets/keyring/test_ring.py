from datetime import UTC, datetime, timedelta

import pytest

from hermesops.access.secrets.keyring.ring import Ring
from hermesops.access.secrets.keyring.rotation import Add, Change, Reseal, Settle, Step, next_step
from hermesops.errors import RefusedError
from tests.support.suite.cases import each_case

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ONE, TWO = b"1" * 32, b"2" * 32


def ring(current: str = "k1", *, retired: str = "") -> Ring:
    return Ring(current, {"k1": ONE, "k2": TWO}, {retired: NOW} if retired else {})


def test_a_ring_is_what_it_was_when_read_again() -> None:
    for key_ring in (Ring.fresh(), ring(), ring("k2", retired="k1")):
        assert Ring.parse(key_ring.to_text()) == key_ring
    assert "1111" not in repr(ring())


@each_case(
    "text", ["", "{}", '{"current": "a", "keys": {}}', '{"current": "a", "keys": {"a": "YQ=="}}', "[]", '"canary"']
)
def test_what_is_no_ring_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is looked at
        Ring.parse(text)
    assert "canary" not in str(refused.value)


@each_case(
    ("held", "sealing", "left", "step"),
    [
        (Ring("k1", {"k1": ONE}), "k1", 0, Add()),
        (ring("k1"), "k1", 0, Change("k2")),
        (ring("k1"), "k1", 3, Reseal()),
        (ring("k1"), "k2", 3, Reseal()),
        (ring("k1"), "k2", 0, Settle("k2")),
        (ring("k2", retired="k1"), "k2", 0, Add()),
        (ring("k2", retired="k1"), "k1", 0, Change("k2")),
        (ring("k2", retired="k1"), "k1", 3, Change("k2")),
    ],
)
def test_what_a_rotation_does_next_follows_from_what_is_there(held: Ring, sealing: str, left: int, step: Step) -> None:
    assert next_step(held, sealing, left) == step


def test_a_ring_that_lacks_the_registrys_key_rotates_nothing() -> None:
    with pytest.raises(RefusedError, match=r"k3.*keys/registry\.key"):
        next_step(ring(), "k3", 0, source="keys/registry.key")


def test_a_retired_key_is_kept_for_copies_that_are_older() -> None:
    settled = ring().settled_on("k2", NOW)
    assert settled.current == "k2"
    for needed_since in (NOW - timedelta(days=1), NOW):
        assert settled.without_retired(needed_since).keys == {"k1": ONE, "k2": TWO}
    for unneeded_since in (None, NOW + timedelta(days=1)):
        assert settled.without_retired(unneeded_since).keys == {"k2": TWO}
    assert settled.settled_on("k2", NOW + timedelta(days=9)).retired == {"k1": NOW}
