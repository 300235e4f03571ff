"""A user's configuration by schema: an older release gets the file that it can read, and no file is ever lost."""

import errno
import os
from pathlib import Path

import pytest

from hermesops.programs.node.state import snapshots, user_config
from hermesops.programs.node.state.config_changes import SettingsResult
from hermesops.programs.node.state.swap import forget
from hermesops.wire.state import contents

OLD = "_config_version: 33\ncustom_providers:\n  - name: mine # by hand\n"
MIGRATED = "_config_version: 50\nproviders:\n  mine: {}\n"
CHANGED = MIGRATED + "agent:\n  max_turns: 7\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path, OLD)
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text)


def read(home: Path) -> str:
    return (home / "config.yaml").read_text()


def kept(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (contents.ours(home) / user_config.FOLDER).glob("*")}


def migrated(home: Path) -> None:
    user_config.keep(home)
    write(home, MIGRATED)


def test_an_older_release_gets_the_users_own_file_and_the_newer_one_stays_beside(home: Path) -> None:
    migrated(home)
    write(home, CHANGED)
    assert user_config.take_back(home, 33)
    assert read(home) == OLD
    assert kept(home) == {"50.yaml": CHANGED}
    assert user_config.take_back(home, 33) is None, "it is there"


def test_there_and_back_and_there_again_loses_neither(home: Path) -> None:
    for turn in range(3):
        migrated(home)
        assert user_config.take_back(home, 33)
        write(home, OLD + f"# {turn}\n")
    assert read(home) == OLD + "# 2\n"
    assert set(kept(home)) == {"50.yaml"}


def test_it_is_the_newest_that_the_release_reads(home: Path) -> None:
    migrated(home)
    user_config.keep(home)
    write(home, "_config_version: 60\n")
    assert user_config.take_back(home, 55)
    assert read(home) == MIGRATED
    assert user_config.take_back(home, 40)
    assert user_config.take_back(home, 20) is None, "none is old enough: the agent ignores unknown keys"
    assert read(home) == OLD


@pytest.mark.parametrize("schema", [33, 34, 10**9])
def test_one_that_it_reads_stays(home: Path, schema: int) -> None:
    user_config.keep(home)
    write(home, OLD + "# newer\n")
    assert user_config.take_back(home, schema) is None
    assert read(home) == OLD + "# newer\n"


def die_at(patched: pytest.MonkeyPatch, at: int) -> None:
    """Have the process end before its change of this number."""
    calls = iter(range(9))
    real = {name: getattr(Path, name) for name in ("hardlink_to", "replace")}

    def mortal(name: str) -> object:
        def call(self: Path, target: Path) -> object:
            if next(calls) == at:
                raise KeyboardInterrupt
            return real[name](self, target)

        return call

    for name in real:
        patched.setattr(Path, name, mortal(name))


@pytest.mark.parametrize("at", range(3))
def test_killed_anywhere_it_is_one_whole_file_or_the_other(
    home: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated(home)
    with monkeypatch.context() as patched:
        die_at(patched, at)
        with pytest.raises(KeyboardInterrupt):
            user_config.take_back(home, 33)
    assert read(home) in {OLD, MIGRATED}
    user_config.take_back(home, 33)
    assert read(home) == OLD
    assert kept(home)["50.yaml"] == MIGRATED


def test_links_folders_and_odd_names_in_the_agents_own_home_lead_nowhere(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("_config_version: 1\n")
    migrated(home)
    folder = contents.ours(home) / user_config.FOLDER
    (folder / "20.yaml").symlink_to(outside)
    (folder / "31.yaml").mkdir()
    (folder / f"{'9' * 30}.yaml").write_text("x")
    (folder / "34.yaml.part").write_text("x")
    assert user_config.take_back(home, 33)
    assert read(home) == OLD
    (home / "config.yaml").unlink()
    (home / "config.yaml").symlink_to(outside)
    user_config.keep(home)
    assert user_config.take_back(home, 0) is None
    assert outside.read_text() == "_config_version: 1\n"


def test_a_link_in_the_folders_place_is_removed_not_followed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    contents.ours(home).mkdir()
    (contents.ours(home) / user_config.FOLDER).symlink_to(elsewhere)
    user_config.keep(home)
    assert os.listdir(elsewhere) == []  # noqa: PTH208 - names alone
    assert kept(home) == {"33.yaml": OLD}


def test_a_restored_backup_does_not_take_them_away_and_none_of_it_is_in_one(home: Path) -> None:
    migrated(home)
    forget(home)
    assert kept(home) == {"33.yaml": OLD}
    assert not [item for item in contents.Walk(home).items() if b"configs" in item.name]


def test_a_trial_sees_the_file_that_a_switch_would_put_in_place(home: Path) -> None:
    migrated(home)
    for schema, text in ((33, OLD), (50, MIGRATED), (20, MIGRATED)):
        snapshots.make_trial_copy(home, schema)
        assert read(snapshots.trial_folder(home)) == text
    assert read(home) == MIGRATED


def changed_under_50(home: Path) -> None:
    migrated(home)
    user_config.keep_migrated(home)
    write(home, CHANGED.replace("mine: {}", "mine: {url: x}"))


MERGED = OLD + "agent:\n  max_turns: 7\n"
SETTINGS = SettingsResult(1, ("providers.mine",))


def test_the_users_changes_are_carried_over_to_the_older_file_or_named(home: Path) -> None:
    changed_under_50(home)
    assert user_config.take_back(home, 33) == SETTINGS
    assert read(home) == MERGED
    assert set(kept(home)) == {"50.yaml", "50.migrated"}
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o600
    user_config.keep(home)  # there and back once more: the next migration has its own file
    write(home, "_config_version: 50\nagent:\n  max_turns: 7\n")
    user_config.keep_migrated(home)
    assert user_config.take_back(home, 33) == SettingsResult()
    assert read(home) == MERGED


@pytest.mark.parametrize("at", range(3))
def test_killed_anywhere_no_change_of_the_users_is_lost(home: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_under_50(home)
    newer = read(home)
    with monkeypatch.context() as patched:
        die_at(patched, at)
        with pytest.raises(KeyboardInterrupt):
            user_config.take_back(home, 33)
    assert read(home) in {newer, MERGED}
    user_config.take_back(home, 33)
    assert read(home) == MERGED
    assert kept(home)["50.yaml"] == newer


def test_a_restored_copy_gets_them_as_well_and_again_the_same(home: Path) -> None:
    snapshots.keep(home, "1-0.21.0")
    changed_under_50(home)
    for _ in range(2):
        result = snapshots.restore(home, "1-0.21.0")
        assert (result.settings_migrated, result.settings_lost) == (1, ("providers.mine",))
        assert read(home) == MERGED
    assert "url: x" in kept(home)["50.yaml"]


def test_a_preview_says_what_the_way_back_does_and_changes_nothing(home: Path) -> None:
    snapshots.keep(home, "1-0.21.0")
    changed_under_50(home)
    before = (read(home), kept(home))
    assert user_config.preview(home, 33) == SETTINGS
    preview = snapshots.preview(home, "1-0.21.0")
    assert (preview.settings_migrated, preview.settings_lost) == (SETTINGS.migrated, SETTINGS.lost)
    assert (read(home), kept(home)) == before
    assert user_config.preview(home, 50) == SettingsResult()
    assert user_config.take_back(home, 33) == SETTINGS


def test_without_the_file_that_a_migration_left_the_whole_is_named(home: Path) -> None:
    migrated(home)
    assert user_config.preview(home, 33) == user_config.take_back(home, 33) == SettingsResult(lost=("config.yaml",))


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (OLD, ()),
        (OLD + "agent:\n  max_turns: 7\n", ("agent.max_turns",)),
        (OLD.replace("mine # by hand", "yours"), ("custom_providers",)),
        (OLD + "a: &x [*x]\n", ("config.yaml",)),
    ],
)
def test_a_kept_copy_of_the_same_schema_names_the_settings_that_it_has_not(
    home: Path, after: str, lost: tuple[str, ...]
) -> None:
    snapshots.keep(home, "1-0.21.0")
    write(home, after)
    assert snapshots.preview(home, "1-0.21.0").settings_lost == lost
    for _ in range(2):
        assert snapshots.restore(home, "1-0.21.0").settings_lost == lost
        assert read(home) == OLD


def test_without_room_the_older_file_is_put_in_place_as_it_was_and_all_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_under_50(home)

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert user_config.take_back(home, 33) == SettingsResult(0, ("config.yaml",))
    assert read(home) == OLD


def test_a_trial_sees_the_users_changes(home: Path) -> None:
    changed_under_50(home)
    snapshots.make_trial_copy(home, 33)
    assert (snapshots.trial_folder(home) / "config.yaml").read_text() == MERGED


@pytest.mark.parametrize("data", [b"\xff_config_version: 50\n", bytes(2 << 20), b"a: &x [*x, *x]\n"])
def test_a_file_of_the_agents_that_cannot_be_read_leaves_the_older_one_as_it_was(home: Path, data: bytes) -> None:
    migrated(home)
    user_config.keep_migrated(home)
    (home / "config.yaml").write_bytes(b"_config_version: 50\n" + data)
    assert user_config.take_back(home, 33) == SettingsResult(0, ("config.yaml",))
    assert read(home) == OLD
