"""Whatever is done to a chain of audit entries, other than appending, shows."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.access.audit import AuditEntry, AuditHead
from hermesops.store.registry.audit.hash_chain import examine, link
from tests.support.suite.cases import each_case

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def chain(length: int, *, epoch: int = 1, after: tuple[AuditEntry, ...] = (), word: str = "a") -> list[AuditEntry]:
    chained = list(after)
    for number in range(len(chained) + 1, len(chained) + length + 1):
        at = BEGIN + timedelta(seconds=number)
        entry = AuditEntry(number, at, "ada@ops", "moved", f"x/{number}", word, {"n": number}, {}, epoch)
        chained.append(link(entry, chained[-1].hash if chained else ""))
    return chained


def heads(entries: list[AuditEntry]) -> list[AuditHead]:
    return [AuditHead(entry.epoch, entry.id, entry.hash) for entry in entries]


def relinked(entries: list[AuditEntry]) -> list[AuditEntry]:
    chained: list[AuditEntry] = []
    for entry in entries:
        chained.append(link(entry, chained[-1].hash if chained else ""))
    return chained


def found(entries: list[AuditEntry], anchors: list[AuditHead]) -> list[int]:
    return [finding.id for finding in examine(entries, anchors).findings]


def test_a_whole_chain_has_no_findings() -> None:
    entries = chain(5)
    report = examine(entries, heads(entries)[:4])
    assert report.findings == ()
    assert (report.entries, report.head, report.anchors, report.anchored_to) == (5, heads(entries)[-1], 4, 4)


def test_the_hash_of_an_entry_stays_what_it_was() -> None:
    """Every registry out there was chained with this very formula."""
    assert chain(1)[0].hash == "aa4bea386854d508918a359e7cf5825fcc4ad11ea867aa3ffc9fecfbfaf65183"


@each_case(
    "changed",
    [
        {"why": "b"},
        {"who": "eve@ops"},
        {"at": BEGIN},
        {"action": "Moved"},
        {"subject": "x/4"},
        {"before": {"n": "3"}},
        {"after": {"n": None}},
        {"epoch": 2},
        {"hash": "0" * 64},
        {"previous": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_an_edited_entry_is_named(changed: dict[str, Any]) -> None:
    entries = chain(5)
    anchors = heads(entries)
    entries[2] = dataclasses.replace(entries[2], **changed)
    assert 3 in found(entries, anchors)


@given(st.integers(0, 7), st.integers(0, 7))
def test_a_removed_or_moved_entry_shows_without_any_anchor(first: int, second: int) -> None:
    entries = chain(8)
    removed = entries[:first] + entries[first + 1 :]
    assert bool(found(removed, [])) == (first != 7), "only the newest one needs the anchor"
    if first != second:
        swapped = list(entries)
        swapped[first], swapped[second] = (
            dataclasses.replace(entries[second], id=entries[first].id),
            dataclasses.replace(entries[first], id=entries[second].id),
        )
        assert found(swapped, [])


@given(st.integers(1, 8))
def test_a_removed_tail_shows_by_the_anchor(left: int) -> None:
    entries = chain(9)
    assert found(entries[:left], []) == []
    assert found(entries[:left], heads(entries)) == list(range(left + 1, 10))


def test_a_chain_computed_anew_shows_by_the_anchor() -> None:
    entries = chain(5)
    anchors = heads(entries)
    entries[2] = dataclasses.replace(entries[2], why="another")
    forged = relinked(entries)
    assert found(forged, []) == []
    assert found(forged, anchors[-1:]) == [5]


def test_what_was_lost_with_a_restored_copy_is_counted_and_no_finding() -> None:
    first = chain(5)
    restored = chain(3, epoch=2, after=tuple(first[:3]))
    report = examine(restored, heads(first) + heads(restored))
    assert (report.findings, report.lost, report.anchored_to) == ((), 2, 6)


def test_an_epoch_that_falls_is_named() -> None:
    later = chain(2, epoch=2, after=tuple(chain(2)))
    assert found(later, []) == []
    assert found(chain(1, epoch=1, after=tuple(later)), []) == [5]


def test_an_epoch_excuses_no_loss_from_before_it_began() -> None:
    first = chain(5)
    restored = relinked([*first[:2], *first[3:5], *chain(3, epoch=2, after=tuple(first))[5:]])
    assert found(restored, heads(first))[:1] == [3]


def test_the_hash_does_not_depend_on_zone_or_on_how_a_database_keeps_values() -> None:
    entry = AuditEntry(1, BEGIN, "a", "b", "c", "d", {"scopes": ("x", "y")}, {"n": 1})
    kept = dataclasses.replace(
        entry, at=BEGIN.astimezone(timezone(timedelta(hours=9))), before={"scopes": ["x", "y"]}, after={"n": 1}
    )
    assert link(entry, "").hash == link(kept, "").hash
