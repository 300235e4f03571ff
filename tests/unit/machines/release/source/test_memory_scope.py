"""The limit of memory of a build, where systemd counts it."""

import os

import pytest

from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.limits import Limits
from hermesops.machines.release.source.memory_scope import MemoryScope, kills_in


@pytest.mark.parametrize("wanted_bytes", [1 << 20, 1 << 60])
def test_a_build_gets_no_more_than_half_of_the_computer_in_whole_pages(
    monkeypatch: pytest.MonkeyPatch, wanted_bytes: int
) -> None:
    monkeypatch.setattr(MemoryScope, "is_there", lambda _: True)
    scope = Isolation(Limits(memory_bytes=wanted_bytes)).scope
    assert scope
    assert scope.limit_bytes == min(wanted_bytes, os.sysconf("SC_PHYS_PAGES") // 2 * os.sysconf("SC_PAGE_SIZE"))
    assert scope.limit_bytes % os.sysconf("SC_PAGE_SIZE") == 0, "the kernel rounds it, and then the trial finds another"
    assert f"--property=MemoryMax={scope.limit_bytes}" in scope.trial()


def test_a_report_that_says_nothing_counts_no_kill() -> None:
    assert [kills_in(report) for report in (b"", b"0\n", b"2\n", b"two", b"-1")] == [0, 0, 2, 0, 0]
