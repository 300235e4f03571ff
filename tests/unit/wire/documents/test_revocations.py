"""Which releases must not run any more."""

from dataclasses import replace

import pytest

from hermesops.wire.documents.revocations import Revocations, is_older
from hermesops.wire.errors import BadRequestError, RefusedError
from tests.support.suite.cases import each_case
from tests.unit.wire.documents.test_lock import LOCK


def test_what_was_revoked_is_refused_with_the_reason() -> None:
    revocations = Revocations().with_revoked(LOCK.id, "eats memories")
    with pytest.raises(RefusedError, match=rf"release {LOCK.id} was revoked: eats memories"):
        revocations.refuse(LOCK)
    revocations.refuse(replace(LOCK, config_schema=34))


def test_what_is_below_the_floor_is_refused() -> None:
    Revocations(floor="0.19.0").refuse(LOCK)
    with pytest.raises(RefusedError, match=r"no agent older than 0\.19\.1"):
        Revocations(floor="0.19.1").refuse(LOCK)


def test_every_change_has_a_higher_number() -> None:
    revocations = Revocations().with_revoked(LOCK.id, "a").with_floor("0.19.0").with_floor("")
    assert (revocations.number, revocations.floor, dict(revocations.revoked)) == (3, "", {LOCK.id: "a"})
    assert Revocations.from_json(revocations.to_json()) == revocations


@each_case(
    ("old", "new"),
    [
        ("0.9.0", "0.10.0"),
        ("0.19", "0.19.1"),
        ("0.20.0rc1", "0.20.0"),
        ("0.20.0.dev3", "0.20.0"),
        ("0.20.0", "0.20.0.post1"),
        ("0.20.0a1", "0.20.0b1"),
    ],
)
def test_which_version_is_older(old: str, new: str) -> None:
    assert is_older(old, new)
    assert not is_older(new, old)


def test_the_same_version_in_other_words_is_not_older() -> None:
    for first, other in (("0.19", "0.19.0"), ("0.19.0+ours", "0.19.0")):
        assert not is_older(first, other)
        assert not is_older(other, first)


@each_case(
    ("text", "named"),
    [
        (b"[]", "revocations: not an object"),
        (b'{"format":2,"number":1,"revoked":{},"floor":""}', "format or number is not understood"),
        (b'{"format":1,"number":true,"revoked":{},"floor":""}', "format or number is not understood"),
        (b'{"format":1,"number":-1,"revoked":{},"floor":""}', "format or number is not understood"),
        (b'{"format":1,"number":1,"revoked":{"all":"x"},"floor":""}', "release: not of the expected form"),
        (b'{"format":1,"number":1,"revoked":{"0.19.0-874c23c48292":"a\\nb"},"floor":""}', "holds a line break"),
        (b'{"format":1,"number":1,"revoked":{},"floor":"newest"}', "floor: not of the expected form"),
        (b'{"format":1,"number":1,"revoked":{}}', "lacks floor"),
    ],
)
def test_what_are_no_revocations(text: bytes, named: str) -> None:
    with pytest.raises(BadRequestError, match=named):
        Revocations.from_json(text)
