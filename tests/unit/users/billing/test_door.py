"""Stripe's events at the door: what its own library signs gets in, and nothing else."""

from datetime import UTC, datetime

import pytest

from hermesops.users.billing.door import StripeDoor, UnsignedEventError, is_signed
from tests.support.billing.stripe_events import Endpoint, fresh_secret
from tests.support.suite.cases import each_case

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
BODY = b'{"id": "evt_1", "object": "event"}'
ENDPOINT = Endpoint(fresh_secret())
GOOD = ENDPOINT.signature(BODY, at=NOW)
OTHER = Endpoint(fresh_secret()).signature(BODY, at=NOW)
AT = NOW.timestamp()


def test_what_stripe_signed_is_kept_as_it_came() -> None:
    kept: list[tuple[bytes, str]] = []

    def receive(body: bytes, signature: str) -> int:
        kept.append((body, signature))
        return 1

    door = StripeDoor(lambda: [fresh_secret(), ENDPOINT.secret], receive, 300)
    door.take(BODY, GOOD, AT)
    door.take(BODY, f"{OTHER},{GOOD.partition(',')[2]}", AT)  # two signatures while a secret is rolled
    assert [body for body, _ in kept] == [BODY, BODY]
    for body, signature, now in (
        (BODY + b" ", GOOD, AT),
        (BODY, GOOD, AT + 301),
        (BODY, GOOD, AT - 301),
        (BODY, OTHER, AT),
        (BODY, "", AT),
        (b"x" * 300_000, ENDPOINT.signature(b"x" * 300_000, at=NOW), AT),
        (BODY, GOOD + "," + "v1=0," * 2_000, AT),
    ):
        with pytest.raises(UnsignedEventError, match="the event"):
            door.take(body, signature, now)
    assert len(kept) == 2


@each_case(
    "signature",
    [
        "t=,v1=",
        "v1=" + GOOD.partition("v1=")[2],
        GOOD.replace("t=", "t=0x"),
        GOOD.replace("t=", "t=٣"),
        GOOD.replace("v1=", "v0="),
        "t=" + "9" * 400 + ",v1=0",
        "=,=,=",
        ",".join(["t=1"] * 1_000),
    ],
    ids=lambda text: text[:40],
)
def test_a_malformed_signature_is_none(signature: str) -> None:
    assert not is_signed(BODY, signature, [ENDPOINT.secret], now=AT, tolerance_s=300)
    assert not is_signed(BODY, GOOD, [], now=AT, tolerance_s=300)
