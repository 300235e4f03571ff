"""Places: an agent or a service that takes all of its own takes none of another's."""

from contextlib import ExitStack

import pytest

from hermesops.agents.relay.places import Most, Places
from hermesops.serving.exchange import RefusedRequestError


def test_an_agent_has_its_own_places_and_no_others() -> None:
    places = Places(Most(at_once=100, per_agent=2))
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(places.of_caller("router"))
            held.enter_context(places.of_agent("ada"))
        with pytest.raises(RefusedRequestError, match="its limit of 2 requests"), places.of_agent("ada"):
            pass
        with places.of_agent("bob"):
            pass
    with places.of_agent("ada"):
        assert places.taken == 0


def test_an_agent_has_one_place_once_half_of_all_are_taken() -> None:
    places = Places(Most(at_once=4, per_agent=2))
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(places.of_caller("router"))
        with (
            places.of_agent("ada"),
            pytest.raises(RefusedRequestError, match="limit of 1 request"),
            places.of_agent("ada"),
        ):
            pass


def test_one_service_does_not_fill_the_relay() -> None:
    places = Places(Most(at_once=3, per_caller=2))
    with ExitStack() as held:
        for name in ("router", "router"):
            held.enter_context(places.of_caller(name))
        with pytest.raises(RefusedRequestError, match="its limit of requests"), places.of_caller("router"):
            pass
        held.enter_context(places.of_caller("web"))
        with pytest.raises(RefusedRequestError, match="its limit of requests") as full, places.of_caller("third"):
            pass
        assert full.value.retry_after_s == 1


def test_bodies_are_held_within_a_bound() -> None:
    places = Places(Most(bodies_bytes=10))
    with places.of_body(6):
        with pytest.raises(RefusedRequestError, match="its limit of request bodies"), places.of_body(5):
            pass
        with places.of_body(4):
            pass
    with places.of_body(10):
        pass
