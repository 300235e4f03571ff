"""An audit is sound when nothing contradicts it and something outside the database vouches for it."""

from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.access.audit import AuditHead, ChainFinding, ChainReport
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.reader import AuditLogReader
from tests.support.fakes.parts import part

SOUND = ChainReport(9, AuditHead(2, 9, "h" * 64), 6, 7, 0, ())


def reader(report: ChainReport, paths: list[Path] | None = None) -> AuditLogReader:
    def check(anchor: Anchor) -> ChainReport:
        if paths is not None:
            paths.append(anchor.path)
        return report

    return AuditLogReader(part(check=check), Anchor(Path("/a")))


def test_heads_of_this_or_of_another_computer_are_compared() -> None:
    paths: list[Path] = []
    assert reader(SOUND, paths).verify() == (SOUND, Path("/a"))
    assert reader(SOUND, paths).verify(Path("/other")) == (SOUND, Path("/other"))
    assert paths == [Path("/a"), Path("/other")]


def test_a_broken_chain_names_its_first_entry_and_counts_the_others() -> None:
    findings = (ChainFinding(3, "is missing"), *(ChainFinding(number, "was edited") for number in range(5, 30)))
    with pytest.raises(BrokenInvariantError, match=r"^audit entry 3 is missing; and 25 more: 5, .*, 24$"):
        reader(ChainReport(9, None, 6, 7, 0, findings)).verify()
    with pytest.raises(BrokenInvariantError, match=r"^the audit: no triggers$"):
        reader(ChainReport(9, None, 6, 7, 0, (ChainFinding(0, "no triggers"),))).verify()


def test_entries_that_nothing_anchors_are_not_sound_and_an_empty_audit_is() -> None:
    with pytest.raises(RefusedError, match="/a anchors none of them"):
        reader(ChainReport(9, None, 0, 0, 0, ())).verify()
    empty = ChainReport(0, None, 0, 0, 0, ())
    assert reader(empty).verify() == (empty, Path("/a"))
