"""Tokens of the model router."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.ids import InstanceId
from hermesops.model.route import ROUTES, instance_of_token, issue_token

SECRET = b"0" * 32
INSTANCE = InstanceId("11111111-2222-3333-4444-555555555555")


def test_a_token_names_its_instance_and_generation() -> None:
    assert instance_of_token(SECRET, issue_token(SECRET, INSTANCE, 7)) == (INSTANCE, 7)


def test_another_key_opens_nothing() -> None:
    assert instance_of_token(b"1" * 32, issue_token(SECRET, INSTANCE, 1)) is None


@given(st.integers(min_value=0, max_value=200), st.characters(codec="ascii"))
def test_a_changed_character_makes_it_a_strangers(position: int, character: str) -> None:
    token = issue_token(SECRET, INSTANCE, 1)
    place = position % len(token)
    changed = token[:place] + character + token[place + 1 :]
    assert (instance_of_token(SECRET, changed) is None) is (changed != token)


@pytest.mark.parametrize("token", ["", ".", "...", "hm1", "hm1.x.1", "hm1.x.y.z", "hm2.x.1.0"])
def test_rubbish_is_nobodys(token: str) -> None:
    assert instance_of_token(SECRET, token) is None


def test_the_default_route_is_claude_haiku() -> None:
    assert ROUTES[0].name == "claude-haiku"
    assert {route.name for route in ROUTES} == {"claude-haiku", "gpt-4o", "gemini-flash"}
