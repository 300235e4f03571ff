"""Every kind of file that operators sign is read as it was written, and nothing else is taken for one."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.access.identity import approval, mass_change
from hermesops.agents.cells.changes import preview
from hermesops.errors import UsageError
from hermesops.model.access.signed_file import SignedFile, why_outdated
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.stack import Change, ChangeKind
from tests.support.suite.cases import each_case

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(hours=24)
GONE = Change(ChangeKind.DELETE, "urn:b", "justavps:index:Machine", "b", "id-b", properties=("status",))
ASKED = approval.Asked("preview of cell1", "production", approval.digest_of(b"all of it"), "ada@example.org")
PREVIEW = preview.SavedPreview("production", CellName("cell1"), "r", "s", (), {"hermesops": "1"}, (GONE,), "$1", NOW)

Signed = tuple[SignedFile[Any], Any, str]
KINDS = pytest.mark.parametrize(
    "signed",
    [
        (approval.FILE, approval.Approval(ASKED, NOW), "an approval"),
        (
            mass_change.FILE,
            mass_change.MassChange("production", (InstanceId("i-1"), InstanceId("i-2")), "moving", NOW),
            "a list of agents",
        ),
        (preview.FILE, PREVIEW, "a saved preview"),
    ],
    ids=["approval", "mass-change", "preview"],
)


@KINDS
def test_a_file_gives_back_what_was_signed_to_the_byte(signed: Signed) -> None:
    form, content, _ = signed
    text = form.to_text(content, "SIGNED")
    assert form.is_kind_of(text)
    read, signature = form.parse(text)
    assert (read, signature) == (content, "SIGNED")
    assert read.to_bytes() == content.to_bytes()


def test_what_is_signed_is_canonical_json() -> None:
    assert mass_change.MassChange("local", (InstanceId("i-1"),), "why", NOW).to_bytes() == (
        b'{"at":"2026-05-04T12:00:00+00:00","environment":"local","instances":["i-1"],"reason":"why"}'
    )


@KINDS
@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "\x00", "[" * 100_000, '{"kind": "hermesops-other", "version": 1}', '{"kind": "%s"}'],
)
def test_what_is_no_such_file_is_refused_in_one_line(signed: Signed, text: str) -> None:
    form, _, title = signed
    with pytest.raises(UsageError, match=f"^not {title}, or a damaged one$|^not {title} of version 1$") as refused:
        form.parse(text.replace("%s", form.kind))
    assert str(refused.value.hint) == str(form.hint)
    assert form.is_kind_of(text) is False


@KINDS
def test_another_version_or_a_field_that_is_missing_or_misshapen_is_refused(signed: Signed) -> None:
    form, content, title = signed
    envelope = json.loads(form.to_text(content, "S"))
    with pytest.raises(UsageError, match=f"not {title} of version 1"):
        form.parse(json.dumps({**envelope, "version": 2}))
    for name in envelope[form.field]:
        without = {key: value for key, value in envelope[form.field].items() if key != name}
        for damaged in (without, {**without, name: [7]}):
            with pytest.raises(UsageError, match=f"not {title}, or a damaged one"):
                form.parse(json.dumps({**envelope, form.field: damaged}))


@each_case(
    ("at", "counts"),
    [
        (NOW, True),
        (NOW - DAY, True),
        (NOW - DAY - timedelta(seconds=1), False),
        (NOW + timedelta(minutes=5), True),
        (NOW + timedelta(minutes=6), False),
    ],
)
def test_what_was_signed_counts_for_its_life_and_not_before(at: datetime, *, counts: bool) -> None:
    reason = why_outdated("it was made at", at, now=NOW, life=DAY)
    assert reason == ("" if counts else f"it was made at {at:%Y-%m-%d %H:%M} UTC; it is valid for 24 h")
