"""Tokens of the model router."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.billing.route import ROUTES, ModelToken, Refusal, issue_token, read_token, refusal_of
from hermesops.model.ids import InstanceId
from tests.support.suite.cases import each_case

SECRET = b"0" * 32
INSTANCE = InstanceId("11111111-2222-3333-4444-555555555555")


EXPIRES_AT = 1_800_000_000


def token_of(generation: int = 1, *, secret: bytes = SECRET) -> str:
    return issue_token(secret, INSTANCE, generation, EXPIRES_AT)


def test_a_token_says_its_instance_generation_and_expiry() -> None:
    assert read_token(SECRET, token_of(7)) == ModelToken(INSTANCE, 7, EXPIRES_AT)


def test_another_key_opens_nothing() -> None:
    assert read_token(b"1" * 32, token_of()) is None


@given(st.integers(min_value=0, max_value=200), st.characters())
def test_a_changed_character_makes_it_a_strangers(position: int, character: str) -> None:
    token = token_of()
    place = position % len(token)
    changed = token[:place] + character + token[place + 1 :]
    assert (read_token(SECRET, changed) is None) is (changed != token)


@pytest.mark.parametrize("part", [f".{EXPIRES_AT}.", ".1."])
def test_expiry_and_generation_are_signed(part: str) -> None:
    assert part in token_of()
    assert read_token(SECRET, token_of().replace(part, part.replace("1", "2", 1))) is None


@given(st.text(alphabet=st.sampled_from("hm2.0123456789abcdef-²٣\x00\udcff\n")) | st.text())
def test_whatever_a_stranger_sends_is_nobodys(text: str) -> None:
    assert read_token(SECRET, text) is None
    assert read_token(SECRET, f"hm2.x.{text}.1.{'a' * 40}") is None


@each_case(
    "token", ["", ".", "...", "hm1.x.1.1." + "0" * 40, "hm2.x.y.z." + "0" * 40, "9" * 10_000_000, token_of() + "\n"]
)
def test_rubbish_is_nobodys(token: str) -> None:
    assert read_token(SECRET, token) is None


@each_case(
    ("floor", "now", "refusal"),
    [
        (7, EXPIRES_AT - 1, None),
        (6, EXPIRES_AT - 1, None),
        (8, EXPIRES_AT - 1, Refusal.REVOKED),
        (7, EXPIRES_AT, Refusal.EXPIRED),
        (None, EXPIRES_AT - 1, Refusal.UNKNOWN_INSTANCE),
    ],
)
def test_a_router_refuses_what_ran_out_or_lies_below_the_floor(
    floor: int | None, now: float, refusal: Refusal | None
) -> None:
    assert refusal_of(ModelToken(INSTANCE, 7, EXPIRES_AT), floor=floor, now=now) is refusal


def test_the_default_route_is_claude_haiku() -> None:
    assert ROUTES[0].name == "claude-haiku"
    assert {route.name for route in ROUTES} == {"claude-haiku", "gpt-4o", "gemini-flash"}
