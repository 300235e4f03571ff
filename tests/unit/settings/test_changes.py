"""``settings set`` changes one key, keeps what an operator wrote around it, and writes nothing that is invalid."""

import stat
import tomllib
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.settings.changing import SettingChange, change_setting, takes_effect
from hermesops.settings.edited_text import Removed
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS

TEXT = """# of the first day
cell_size = 30 # per cell

[backup]
keep_daily = 7  # a week
"""


def file_of(home: Path) -> Path:
    return home / "local" / "settings.toml"


def write(home: Path, text: str = TEXT, mode: int = 0o640) -> Path:
    file_of(home).parent.mkdir(parents=True, exist_ok=True)
    file_of(home).write_text(text)
    file_of(home).chmod(mode)
    return file_of(home)


def variables(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "HERMESOPS_HOME": str(home), **more}


def change(home: Path, key: str, text: str | Removed, **more: str) -> SettingChange:
    return change_setting("", key, text, variables(home, **more))


def test_only_the_value_changes_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    changed = change(tmp_path, "cell_size", "41")
    assert file.read_text() == TEXT.replace("30", "41")
    assert (changed.before, changed.after, changed.is_written) == (30, 41, True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["settings.toml"], "no draft is left"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("region", "nbg1", "nbg1"),
        ("backup.keep_weekly", "9", 9),
        ("grace_days", "0.5", 0.5),
        ("monitoring.silent_share", "0.5", 0.5),
        ("pool_size", "light=2,heavy=1", {"light": 2, "heavy": 1}),
        ("server_types", '{light = "a", heavy = "b"}', {"light": "a", "heavy": "b"}),
        ("billing.suspending_pauses", '["void", "keep_as_draft"]', ["keep_as_draft", "void"]),
        ("suspended_machines", "removed", "removed"),
        ("api_key_file", "keys/vendor.key", "keys/vendor.key"),
    ],
)
def test_values_stand_in_the_file_as_toml_has_them(tmp_path: Path, key: str, text: str, value: object) -> None:
    file = write(tmp_path)
    change(tmp_path, key, text)
    document: object = tomllib.loads(file.read_text())
    for part in key.split("."):
        assert isinstance(document, dict)
        document = document[part]
    assert document == value
    Environment.load("", variables(tmp_path))


def test_a_first_setting_makes_a_file_of_the_owner_only(tmp_path: Path) -> None:
    change(tmp_path, "cell_size", "3")
    assert file_of(tmp_path).read_text() == "cell_size = 3\n"
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600


def test_a_removed_setting_has_its_default(tmp_path: Path) -> None:
    file = write(tmp_path)
    changed = change(tmp_path, "backup.keep_daily", Removed.REMOVED)
    assert (changed.before, changed.after) == (7, 14)
    assert "keep_daily" not in file.read_text()
    assert not change(tmp_path, "region", Removed.REMOVED).is_written


def test_the_same_value_writes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path)
    before = file.stat().st_mtime_ns, file.stat().st_ino
    assert not change(tmp_path, "cell_size", "30").is_written
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("cell_size", "many", "valid integer"),
        ("cell_size", "0", "greater than or equal"),
        ("cell_sise", "3", "no setting"),
        ("approvals", "required", "verified operators"),
        ("api_url", "http://user:pass@host/api/v1", "a password"),
        ("server_types", "{light", "no TOML"),
        ("server_types", "light=a", "nothing for heavy"),
    ],
)
def test_an_invalid_whole_writes_nothing(tmp_path: Path, key: str, text: str, words: str) -> None:
    file = write(tmp_path)
    with pytest.raises(UsageError, match=words):
        change(tmp_path, key, text)
    assert file.read_text() == TEXT


@pytest.mark.parametrize("key", ["api_key", "rollout.webhook", "registry.url", "model.api_key"])
def test_a_secret_is_refused_and_in_no_error(tmp_path: Path, key: str) -> None:
    file = write(tmp_path)
    with pytest.raises(UsageError, match="is a secret") as refused:
        change(tmp_path, key, "postgresql://u:canary@host/db")
    assert "canary" not in f"{refused.value} {refused.value.hint}"
    assert file.read_text() == TEXT


def test_a_file_with_a_secret_stays_closed(tmp_path: Path) -> None:
    file = write(tmp_path, 'api_key = "canary"\n', 0o600)
    change(tmp_path, "cell_size", "3")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(RefusedError, match="api_key"):
        change(tmp_path, "cell_size", "4")


def test_the_file_is_judged_where_a_variable_wins_and_that_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    changed = change(tmp_path, "cell_size", "41", HERMESOPS_CELL_SIZE="5")
    assert (changed.after, changed.variable) == (41, "HERMESOPS_CELL_SIZE")
    with pytest.raises(UsageError, match="cell_size"):
        change(tmp_path, "cell_size", "0", HERMESOPS_CELL_SIZE="5")


def test_a_key_of_another_table_with_the_same_name_stays(tmp_path: Path) -> None:
    file = write(tmp_path, '[backup]\nregion = "eu-west-1"\n')
    change(tmp_path, "region", "nbg1")
    assert tomllib.loads(file.read_text()) == {"region": "nbg1", "backup": {"region": "eu-west-1"}}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    there = tmp_path / "kept.toml"
    there.write_text(TEXT)
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).symlink_to(there)
    change(tmp_path, "cell_size", "41")
    assert file_of(tmp_path).is_symlink()
    assert "41" in there.read_text()


def test_each_setting_names_what_carries_it_on() -> None:
    assert all(takes_effect(key) for key in FIELDS)
    assert "pools" in str(takes_effect("pool_size"))
    assert "platform" in str(takes_effect("billing.grace_days"))
