"""What module ``hermes_units`` decides to do with a unit, from what it should be and what it is."""

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hermesops.base import assets

_TICK_S = 0.02
"""By how much the kernel's times of files may be behind: one tick of its clock."""


@pytest.fixture(scope="module")
def units() -> Iterator[ModuleType]:
    """The module, which Ansible loads by its path as well."""
    file = assets.folder("ansible") / "plugins" / "modules" / "hermes_units.py"
    spec = importlib.util.spec_from_file_location("hermes_units", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, loaded)  # where dataclasses look for it
        spec.loader.exec_module(loaded)
        yield loaded


def _step(units: ModuleType, state: str, active: str, ages: dict[str, float]) -> str | None:
    """Of a unit that was started 100 s ago and last changed 50 s ago."""
    wanted = units.Unit("a.service", state, ["/settings"], ["/rules"], None, 60)
    is_up = active != "inactive"
    unit_state = units.Found(is_up, active, "enabled", ["/unit"], "", 100.0, 50.0)
    step: str | None = units.step_of(
        wanted, unit_state, lambda paths: min(ages.get(path, float("inf")) for path in paths)
    )
    return step


@pytest.mark.parametrize(
    ("state", "active", "ages", "step"),
    [
        ("started", "inactive", {}, "start"),
        ("started", "failed", {}, "start"),
        ("started", "active", {"/settings": 101, "/unit": 101, "/rules": 51}, None),
        ("started", "active", {"/settings": 99}, "restart"),
        ("started", "active", {"/unit": 99}, "restart"),
        ("started", "activating", {"/unit": 99}, "restart"),
        ("started", "active", {"/rules": 49}, "reload"),
        ("started", "active", {"/settings": 99, "/rules": 49}, "restart"),
        ("enabled", "inactive", {"/settings": 99}, None),
        ("enabled", "active", {"/settings": 99}, "restart"),
        ("kept", "inactive", {"/settings": 99}, None),
        ("kept", "active", {"/rules": 49}, "reload"),
        ("stopped", "active", {}, "stop"),
        ("stopped", "activating", {}, "stop"),
        ("stopped", "inactive", {"/settings": 99}, None),
        ("stopped", "failed", {}, None),
    ],
)
def test_a_unit_is_brought_to_what_it_should_be(
    units: ModuleType, state: str, active: str, ages: dict[str, float], step: str | None
) -> None:
    assert _step(units, state, active, ages) == step


@pytest.mark.parametrize(
    ("state", "enabled", "switch"),
    [
        ("started", "disabled", "enable"),
        ("started", "", "enable"),
        ("enabled", "disabled", "enable"),
        ("started", "enabled", None),
        ("started", "static", None),
        ("kept", "disabled", None),
        ("kept", "enabled", None),
        ("stopped", "enabled", "disable"),
        ("stopped", "static", None),
        ("stopped", "", None),
    ],
)
def test_only_what_runs_at_every_boot_is_enabled(
    units: ModuleType, state: str, enabled: str, switch: str | None
) -> None:
    wanted: Any = units.Unit("a.service", state, [], [], None, 60)
    unit_state = units.Found(True, "active", enabled, [], "", 1.0, 1.0)
    assert units.switch_of(wanted, unit_state) == switch


def test_the_newest_of_files_counts_and_of_a_folder_what_is_in_it(units: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rules" / "below").mkdir(parents=True)
    (tmp_path / "rules" / "below" / "one").write_text("1")
    (tmp_path / "rules" / "dangling").symlink_to("nowhere")
    paths = [str(tmp_path / "rules"), str(tmp_path / "absent")]
    time.sleep(0.1)  # noqa: TID251 - what is measured is a file's age
    again = time.time() - _TICK_S
    assert units.age_of(paths) > 0.1 - _TICK_S
    (tmp_path / "rules" / "below" / "one").write_text("2")
    assert units.age_of(paths) <= time.time() - again
    # An old time that is given to a file, as unpacking one does, makes it no older.
    os.utime(tmp_path / "rules" / "below" / "one", (1, 1))
    assert units.age_of(paths) <= time.time() - again


def test_files_that_are_not_there_are_no_reason(units: ModuleType) -> None:
    assert units.age_of([]) == units.age_of(["/absent/file"]) == float("inf")
