"""What a machine is handed of a release."""

import json

import pytest

from hermesops.wire.documents.handout import Handout, Signed
from hermesops.wire.documents.lock import canonical
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.errors import BadRequestError
from tests.support.suite.cases import each_case
from tests.unit.wire.documents.test_lock import LOCK

HANDOUT = Handout(
    Signed(LOCK.to_json().decode(), "by ada"),
    (Signed("ada\n", "by ada"), Signed("bob\n", "by ada")),
    Signed(Revocations().to_json().decode(), "by bob"),
    {"a" * 64: "https://store.test/blobs/a?signature=x%2By"},
)


def test_a_handout_is_read_as_it_was_written() -> None:
    read = Handout.from_json(HANDOUT.to_json())
    assert read == HANDOUT
    assert read.read_lock() == LOCK
    assert read.read_revocations() == Revocations()


def test_without_revocations_nothing_was_revoked() -> None:
    read = Handout.from_json(Handout(HANDOUT.lock, HANDOUT.signers).to_json())
    assert read.revocations is None
    assert read.read_revocations() == Revocations()


def test_links_are_not_shown_by_accident() -> None:
    assert "signature" not in repr(HANDOUT).replace("signature='by", "")


@each_case(
    ("field", "value", "named"),
    [
        ("format", 2, "format 2 is not understood"),
        ("lock", None, "lock: not an object"),
        ("lock", {"text": "x"}, "lock: lacks signature"),
        ("signers", {}, "signers: not a list"),
        ("signers", ["ada"], r"signers\[0\]: not an object"),
        ("revocations", "", "revocations: not an object"),
        ("links", {"a": "https://store.test"}, "links: a name: not of the expected form"),
        ("links", {"a" * 64: "file:///etc/shadow"}, r"links\.a+: not of the expected form"),
        ("links", {"a" * 64: "https://store.test/a\nHost: b"}, r"links\.a+: not of the expected form"),
        ("more", 1, "unknown field more"),
    ],
)
def test_what_is_no_handout(field: str, value: object, named: str) -> None:
    fields = json.loads(HANDOUT.to_json())
    fields[field] = value
    with pytest.raises(BadRequestError, match=named):
        Handout.from_json(canonical(fields))
