"""The limit of memory of a build, where systemd counts it."""

import os
from pathlib import Path

import pytest

from hermesops.machines.release.source import memory_scope
from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.limits import Limits
from hermesops.machines.release.source.memory_scope import MemoryScope, kills_in


@pytest.mark.parametrize("wanted_bytes", [1 << 20, 1 << 60])
def test_a_build_gets_no_more_than_half_of_the_computer_in_whole_pages(
    monkeypatch: pytest.MonkeyPatch, wanted_bytes: int
) -> None:
    monkeypatch.setattr(MemoryScope, "obstacle", "")
    scope = Isolation(Limits(memory_bytes=wanted_bytes)).scope
    assert scope
    assert scope.limit_bytes == min(wanted_bytes, os.sysconf("SC_PHYS_PAGES") // 2 * os.sysconf("SC_PAGE_SIZE"))
    assert scope.limit_bytes % os.sysconf("SC_PAGE_SIZE") == 0, "the kernel rounds it, and then the trial finds another"
    assert f"--property=MemoryMax={scope.limit_bytes}" in scope.trial()


def test_a_report_that_says_nothing_counts_no_kill() -> None:
    assert [kills_in(report) for report in (b"", b"0\n", b"2\n", b"two", b"-1")] == [0, 0, 2, 0, 0]


@pytest.mark.parametrize(
    ("program", "obstacle"),
    [
        ("exec sleep 30", "systemd made no control group within 0.5 s"),
        ("echo Failed to connect to bus >&2; exit 1", "systemd bounds no memory here: Failed to connect to bus"),
        ("printf 'max\n'", "systemd bounds no memory here: max"),
        ("printf '\\033[31m' >&2; exit 1", "systemd bounds no memory here: ?[31m"),
    ],
    ids=["silent", "refuses", "no controller", "controls"],
)
def test_a_systemd_that_bounds_no_memory_is_named_and_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, obstacle: str
) -> None:
    systemd_run = tmp_path / "systemd-run"
    systemd_run.write_text(f"#!/bin/sh\n{program}\n")
    systemd_run.chmod(0o755)
    monkeypatch.setattr(memory_scope, "_BOOTED", tmp_path)
    monkeypatch.setattr(memory_scope, "_TRIED_S", 0.5)
    monkeypatch.setattr(memory_scope, "environment", lambda: {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    isolation = Isolation()
    assert isolation.scope is None
    assert isolation.weakness == f"memory is bounded for each process and not for all together: {obstacle}"


def test_a_computer_without_systemd_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory_scope, "_BOOTED", tmp_path / "none")
    assert Isolation().weakness.endswith(": systemd does not run here")
