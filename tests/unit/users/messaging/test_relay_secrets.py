"""Bearers of gateways: signed by the agent's own secret, of now, and for its agent alone."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.ids import InstanceId
from hermesops.users.messaging.relay_secrets import derive, parse_bearer
from tests.support.suite.cases import each_case

ADA, BOB = InstanceId("0" * 8 + "-0000-4000-8000-" + "a" * 12), InstanceId("0" * 8 + "-0000-4000-8000-" + "b" * 12)
ROOT, NOW = bytes(range(32)), 1_000_000.0
SECRET = derive(ROOT, ADA, 1)


def header(instance: str, expires: int, secret: str) -> str:
    signed = f"{instance}:{expires}"
    signature = hmac.new(secret.encode(), signed.encode(), sha256).hexdigest()
    return "Bearer " + urlsafe_b64encode(f"{signed}:{signature}".encode()).decode().rstrip("=")


def test_secrets_differ_by_agent_and_generation_and_are_the_same_each_time() -> None:
    secrets = {derive(ROOT, ADA, 1), derive(ROOT, ADA, 2), derive(ROOT, BOB, 1), derive(bytes(32), ADA, 1)}
    assert len(secrets) == 4
    assert derive(ROOT, ADA, 1) == SECRET


@each_case(
    ("instance", "expires", "secret", "is_valid"),
    [
        (ADA, 1_000_300, SECRET, True),
        (ADA, 1_000_000, SECRET, False),
        (ADA, 1_009_999, SECRET, False),
        (BOB, 1_000_300, SECRET, True),  # signed, and its own agent's secrets are asked for by its id
        (ADA, 1_000_300, derive(ROOT, BOB, 1), False),
        (ADA, 1_000_300, derive(ROOT, ADA, 2), False),
    ],
)
def test_a_bearer_is_valid_for_its_secret_and_for_minutes(
    instance: str,
    expires: int,
    secret: str,
    is_valid: bool,  # noqa: FBT001 - a case
) -> None:
    bearer = parse_bearer(header(instance, expires, secret))
    assert bearer is not None
    assert bearer.instance_id == instance
    assert bearer.is_signed((SECRET,), NOW) is is_valid
    assert not bearer.is_signed((), NOW)


@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda data: "Bearer " + urlsafe_b64encode(data).decode()))
def test_anything_else_is_no_bearer(text: str) -> None:
    assert parse_bearer(text) is None
