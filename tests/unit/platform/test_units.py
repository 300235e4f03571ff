"""Every unit that roles of the platform bring is among what ``platform show`` and ``platform logs`` know."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.platform.services import chosen
from hermesops.platform.state import UNITS, parse_host

EMPTY = {"packages": "", "hermesops": "", "backups": "", "certificate": ""}


def units_of_roles() -> set[str]:
    """Names of the units whose files the platform's roles have."""
    files = [file for role in Path(assets.folder("roles")).glob("hermes_platform_*") for file in role.rglob("*")]
    names = {file.name.removesuffix(".j2") for file in files}
    return {name for name in names if name.endswith((".service", ".socket", ".timer"))}


def shown(*units: str) -> str:
    return "\n\n".join(f"Id={name}\n{state}" for name, _, state in (unit.partition(" ") for unit in units))


def test_every_unit_of_the_roles_is_asked_for() -> None:
    names = units_of_roles()
    assert {"hermesops-migrate.service", "hermesops-vendor-api.socket"} <= names
    assert {name for name in names if not any(fnmatch(name, pattern) for pattern in UNITS)} == set()


def test_each_has_a_log_by_its_name_whatever_its_state() -> None:
    names = units_of_roles()
    state = "Type=oneshot\nActiveState=inactive\nUnitFileState=static\nNRestarts=0"
    host = parse_host({**EMPTY, "units": shown(*(f"{name} {state}" for name in names))})
    unknown = []
    for name in names:
        try:
            (service_state,) = chosen(host, name)
            assert service_state.unit == name
        except UsageError:
            unknown.append(name)
    assert unknown == []
    assert host.is_healthy, "what waits for its timer is as it should be"


def test_what_runs_once_is_down_where_it_failed_and_is_started_again_and_again() -> None:
    for state, is_healthy in (
        ("ActiveState=activating\nSubState=auto-restart\nNRestarts=4", False),
        ("ActiveState=activating\nSubState=start\nNRestarts=5", False),
        ("ActiveState=activating\nSubState=start\nNRestarts=0", True),
        ("ActiveState=active\nSubState=exited\nNRestarts=3", True),
        ("ActiveState=inactive\nSubState=dead\nNRestarts=0", False),
        ("ActiveState=failed\nSubState=failed\nNRestarts=0", False),
    ):
        unit = f"hermesops-migrate.service Type=oneshot\nUnitFileState=enabled\n{state}"
        (migrate,) = parse_host({**EMPTY, "units": shown(unit)}).services
        assert migrate.is_healthy == is_healthy, state
        assert chosen(parse_host({**EMPTY, "units": shown(unit)}), "") == ([] if is_healthy else [migrate]), state


def test_a_name_that_no_unit_has_is_told_with_those_there_are() -> None:
    host = parse_host({**EMPTY, "units": shown("hermesops-migrate.service Type=oneshot\nActiveState=failed")})
    with pytest.raises(UsageError) as caught:
        chosen(host, "hermesops-migrat")
    assert "hermesops-migrate" in str(caught.value.hint)
