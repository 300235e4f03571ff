"""Shapes of the audit and of copies stay what programs read; what is found is said in words."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermesops.agents.backup.registry_copies import CopyPreview, Listed
from hermesops.cli.views import audit
from hermesops.model.access.audit import AuditEntry, AuditHead, ChainReport
from hermesops.store.registry.maintenance.backup import Copy
from hermesops.views import registry as registry_shapes
from hermesops.views.access import audit as audit_shapes

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_an_entry_is_shown_with_the_hash_that_chains_it() -> None:
    entry = AuditEntry(7, AT, "ada@ops", "moved", "x/1", "why", {"a": 1}, {"a": 2}, 3, "p" * 64, "h" * 64)
    assert audit_shapes.entry(entry) == {
        "id": 7,
        "at": "2026-01-01T12:00:00+00:00",
        "who": "ada@ops",
        "action": "moved",
        "subject": "x/1",
        "why": "why",
        "before": {"a": 1},
        "after": {"a": 2},
        "epoch": 3,
        "hash": "h" * 64,
    }


def test_a_report_says_what_is_anchored_and_what_is_not() -> None:
    report = ChainReport(9, AuditHead(2, 9, "h" * 64), 6, 7, 2, ())
    assert audit_shapes.report(report, Path("/a")) == {
        "entries": 9,
        "epoch": 2,
        "hash": "h" * 64,
        "anchor": "/a",
        "anchored_heads": 6,
        "anchored_to": 7,
        "lost_by_restoring": 2,
    }
    assert audit.lines(report, Path("/a")) == [
        "chained entries: 9, up to 7 anchored in /a",
        "entries 8 to 9 are not anchored yet",
        "anchored entries that the restored copy lacks: 2",
    ]
    assert audit.lines(ChainReport(0, None, 0, 0, 0, ()), Path("/a")) == ["the audit is empty"]


def test_a_copy_is_shown_with_its_file() -> None:
    shown = registry_shapes.copy(Listed(Copy(Path("/c/registry.db"), AT, "hourly", 4096), timedelta(minutes=84), 3))
    assert shown == {
        "taken_at": "2026-01-01T12:00:00+00:00",
        "age_s": 5040,
        "reason": "hourly",
        "instances": 3,
        "size_bytes": 4096,
        "file": "/c/registry.db",
    }


def test_what_a_copy_would_put_back_is_said_beside_what_the_vendor_has() -> None:
    old = CopyPreview(Path("/c"), AT, timedelta(minutes=84), 0, tuple(f"m{number}" for number in range(9)))
    head = "copy of 2026-01-01 12:00 UTC (84 min old, 0 instances)"
    cases = {
        old: "machines missing in the copy: 9 of environment local (m0, m1, m2, m3, m4, …)",
        replace(old, unknown=()): "machines missing in the copy: none of environment local",
        replace(old, unknown=None, problem="no answer"): "machines missing in the copy: unknown, no answer",
    }
    for preview, line in cases.items():
        assert audit.preview_lines(preview, "local") == [head, line]
    assert [audit.copy_words(replace(old, age=age))[29:-14] for age in (timedelta(hours=3), timedelta(days=3))] == [
        "(3 h old",
        "(3 days old",
    ]
    assert registry_shapes.preview(replace(old, unknown=None))["unknown_machines"] is None
