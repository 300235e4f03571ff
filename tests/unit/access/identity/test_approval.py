from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.access.identity.approval import (
    Approval,
    Asked,
    digest_of,
    is_own,
    refuse_old,
    refuse_other,
    refuse_own,
)
from hermesops.errors import RefusedError
from tests.support.suite.cases import each_case

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ASKED = Asked("preview of cell1", "production", digest_of(b"all of it"), "ada@example.org")
DAY = timedelta(hours=24)


def judged(approval_request: Asked = ASKED, *, signer: str = "bob@example.org", at: datetime = NOW) -> None:
    refuse_other(Approval(ASKED, at), approval_request, signer=signer)
    refuse_old(Approval(ASKED, at), now=NOW, life=DAY)


@pytest.mark.parametrize("at", [NOW, NOW - DAY, NOW + timedelta(minutes=5)])
def test_what_another_operator_approved_may_happen(at: datetime) -> None:
    output = ""
    try:
        judged(at=at)
    except RefusedError as error:
        output = error.message
    assert output == ""


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, digest=digest_of(b"all of it, and more")),
        replace(ASKED, environment="staging"),
        replace(ASKED, what="preview of cell2"),
        replace(ASKED, by="eve@example.org"),
    ],
)
def test_an_approval_counts_for_nothing_else(other: Asked) -> None:
    with pytest.raises(RefusedError, match="for another"):
        judged(other)


def test_nobody_approves_what_they_asked_for() -> None:
    with pytest.raises(RefusedError, match="cannot approve"):
        judged(signer="ada@example.org")
    with pytest.raises(RefusedError, match="cannot approve"):
        refuse_own(ASKED, "ada@example.org")


@each_case(
    ("question", "is_proved", "signer", "own"),
    [
        ("ada@example.org", True, "ada@example.org", True),
        ("ada@example.org", True, "Ada@Example.ORG ", True),
        ("ada@example.org", True, "\uff41da@example.org", True),
        ("ada@example.org", True, "ada@home.org,ada@example.org", True),
        ("ada@example.org", True, "ada@example.net", False),
        ("repo:helium/hermes", True, "bob@example.org", False),
        ("ada@laptop", False, "ada@example.org", True),
        ("ADA@laptop", False, "ada@example.org", True),
        ("ada@laptop", False, "bob@example.org", False),
        ("ada", False, "eve@x.org,ada@example.org", True),
    ],
)
def test_one_person_is_one_however_spelled(question: str, signer: str, *, is_proved: bool, own: bool) -> None:
    assert is_own(replace(ASKED, by=question, is_proved=is_proved), signer) is own


@pytest.mark.parametrize("at", [NOW - DAY - timedelta(minutes=1), NOW + timedelta(minutes=6)])
def test_an_approval_that_is_old_or_of_the_future_does_not_count(at: datetime) -> None:
    with pytest.raises(RefusedError, match="valid for 24 h"):
        judged(at=at)
