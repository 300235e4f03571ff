"""Changes of settings.toml in the audit log: who, which key, both values unless they are secret."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from hermesops.access.registry_place import RegistryPlace
from hermesops.access.setting_changes import SettingAudit
from hermesops.errors import Hint, UnavailableError
from hermesops.settings.changing import SettingChange
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import registry_at

CHANGE = SettingChange("cell_size", 40, 50, Path("settings.toml"), is_written=True, variable="", effect=Hint())


def test_an_entry_has_who_the_key_and_both_values(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    audit = SettingAudit(part(is_there=lambda: True, open=lambda: registry))
    assert audit.record(CHANGE, why="more room") == ""
    assert audit.record(replace(CHANGE, is_written=False), why="again") == ""
    [entry] = registry.audit.list(subject="setting/cell_size")
    assert (entry.action, entry.why, entry.before, entry.after) == (
        "setting_changed",
        "more room",
        {"value": 40},
        {"value": 50},
    )
    assert entry.who


def test_a_secret_is_not_in_the_audit(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    removed = replace(CHANGE, key="api_key", before=SecretStr("s3cr3t"), after=None)
    assert SettingAudit(part(is_there=lambda: True, open=lambda: registry)).record(removed, why="") == ""
    [entry] = registry.audit.list(subject="setting/api_key")
    assert (entry.before, entry.after) == ({"value": "(hidden)"}, {"value": None})
    plain = replace(removed, before="s3cr3t")
    SettingAudit(part(is_there=lambda: True, open=lambda: registry)).record(plain, why="")
    assert "s3cr3t" not in str(registry.audit.list())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_registry_that_is_not_there_is_named_and_refuses_no_change(*, is_there: bool) -> None:
    def unreached() -> RegistryPlace:
        raise UnavailableError("PostgreSQL does not answer")

    problem = SettingAudit(part(is_there=lambda: is_there, open=unreached)).record(CHANGE, why="")
    assert problem == ("PostgreSQL does not answer" if is_there else "there is no registry yet")
