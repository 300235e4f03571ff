"""The user's configuration in the form of each schema that it had: for the way back to an older release.

It runs as the agent's own user, while no gateway runs. Below our folder in the home, ``configs/N.yaml`` is the user's
``config.yaml`` as it was last written in schema N. A release that reads an older schema than the present file has gets
the newest file that it can read; the present one is kept under its own number. Both steps only rename, so they need no
room, and may be killed anywhere: ``config.yaml`` is one whole file or the other.

``configs/N.migrated`` is the configuration as a migration to schema N left it. Its differences from the newer file are
the user's own changes, which are migrated to the older file where they mean the same there.
"""

import os
import re
import shutil
import stat
from pathlib import Path

from hermesops.programs.node.state.config_changes import WHOLE, SettingsResult, changed_settings, migrate_changes
from hermesops.programs.node.system.files import sync
from hermesops.wire.state import contents
from hermesops.wire.state.contents import CONFIG

FOLDER = "configs"
_CONFIG = os.fsdecode(CONFIG)
_BYTES = 1 << 20
_SCHEMA = re.compile(rb"""^_config_version:\s*["']?(\d{1,9})""", re.MULTILINE)
_KEPT = re.compile(r"(\d{1,9})\.yaml")
_MIGRATED = "migrated"


def schema_in(data: bytes) -> int | None:
    """The number of a configuration's schema: 0 where it names none, ``None`` for an empty file.

    Source: hermes-agent 0.19.0, ``_config_version`` in ``hermes_cli/config.py``.
    """
    match = _SCHEMA.search(data)
    return int(match[1]) if match else 0 if data else None


def keep(home: Path) -> None:
    """Keep the present configuration under the number of its schema; does nothing where there is no plain file.

    Raises:
        OSError: There is no room.
    """
    _keep(home, "yaml")


def keep_migrated(home: Path) -> None:
    """Keep the present configuration as the one that a migration left; does nothing where there is no plain file.

    Raises:
        OSError: There is no room.
    """
    _keep(home, _MIGRATED)


def content(home: Path, schema: int) -> bytes | None:
    """The configuration that an agent of a schema is to read, with the user's changes; ``None`` for the present one."""
    older, present = source(home, schema), _present(home)
    if present is None or older == home / _CONFIG:
        return None
    return _with_changes(home, present, older, _read(home / _CONFIG))[0]


def source(home: Path, schema: int) -> Path:
    """The file that an agent of a schema is to read: the present configuration, or a kept one if that is newer."""
    present = _present(home)
    if present is None or present <= schema:
        return home / _CONFIG
    older = [number for number in _kept(home) if number <= schema]
    return _place(home) / f"{max(older)}.yaml" if older else home / _CONFIG


def take_back(home: Path, schema: int) -> SettingsResult | None:
    """Put the newest configuration in place that an agent of a schema can read; keep the present one beside.

    Does nothing where the present one is not newer, or where none is kept: the agent ignores the keys that it does not
    know. Where there is no room, the older file is put in place as it was.

    Returns:
        The user's changes since the migration; ``None`` where nothing was done.
    """
    older, present = source(home, schema), _present(home)
    if present is None or older == home / _CONFIG:
        return None
    _keep_newer(home, home / _CONFIG)
    text, settings = _with_changes(home, present, older, _read(home / _CONFIG))
    if settings.migrated and not _put(home, text):
        settings = SettingsResult(lost=(WHOLE,))
    if settings.migrated:
        older.unlink()
    else:
        older.replace(home / _CONFIG)
    sync(older.parent)
    sync(home)
    return settings


def preview(home: Path, schema: int) -> SettingsResult:
    """The result that ``take_back`` would have now; changes nothing."""
    older, present = source(home, schema), _present(home)
    if present is None or older == home / _CONFIG:
        return SettingsResult()
    return _with_changes(home, present, older, _read(home / _CONFIG))[1]


def migrate(home: Path, newer: Path) -> SettingsResult:
    """Keep a newer configuration that was moved away, and migrate its changes to the present one.

    May be repeated. One of the present schema is left where it is, and its other settings are named: nobody knows which
    of them the user changed, and which the release that is left.
    """
    schema, present = schema_in(_read(newer)), _present(home)
    if schema is None or present is None or schema <= present:
        return _differences(home / _CONFIG, newer)
    _keep_newer(home, newer)
    text, settings = _with_changes(home, schema, home / _CONFIG, _read(newer))
    return settings if not settings.migrated or _put(home, text) else SettingsResult(lost=(WHOLE,))


def preview_migration(home: Path, older: Path) -> SettingsResult:
    """The result that ``migrate`` would have if an older configuration took the place of the present one now."""
    newer = home / _CONFIG
    schema, before = schema_in(_read(newer)), schema_in(_read(older))
    if schema is None or before is None or schema <= before:
        return _differences(older, newer)
    return _with_changes(home, schema, older, _read(newer))[1]


def _differences(older: Path, newer: Path) -> SettingsResult:
    """The settings of a configuration that another one of its schema has not, as lost."""
    before, after = _read(older), _read(newer)
    if not before or not after:
        return SettingsResult()
    try:
        return SettingsResult(lost=changed_settings(before.decode(), after.decode()))
    except UnicodeDecodeError:
        return SettingsResult(lost=() if before == after else (WHOLE,))


def _keep_newer(home: Path, newer: Path) -> None:
    """Keep a configuration under the number of its schema; a second name needs no room."""
    making = _folder(home) / f"{schema_in(_read(newer))}.part"
    contents.make_free(making)
    making.hardlink_to(newer)
    making.replace(making.with_suffix(".yaml"))


def _with_changes(home: Path, schema: int, older: Path, newer: bytes) -> tuple[bytes, SettingsResult]:
    """An older configuration with the user's changes to the one of a schema.

    Without the file that a migration left, nobody knows what was changed since: the whole is named.
    """
    data, base = _read(older), _read(_place(home) / f"{schema}.{_MIGRATED}")
    if not base or not newer:
        return data, SettingsResult(lost=(WHOLE,))
    try:
        text, settings = migrate_changes(base.decode(), newer.decode(), data.decode())
    except UnicodeDecodeError:
        return data, SettingsResult(lost=(WHOLE,))
    return text.encode(), settings


def _put(home: Path, data: bytes) -> bool:
    """Make the content that of the present configuration; returns whether there was room."""
    making = _folder(home) / "changes.part"
    try:
        contents.make_free(making)
        making.touch(mode=0o600)
        making.write_bytes(data)
        sync(making)
    except OSError:
        return False
    making.replace(home / _CONFIG)
    sync(home)
    return True


def _keep(home: Path, kind: str) -> None:
    schema = _present(home)
    if schema is None:
        return
    folder = _folder(home)
    making = folder / f"{schema}.part"
    contents.make_free(making)
    shutil.copyfile(home / _CONFIG, making, follow_symlinks=False)
    making.chmod(0o600)
    sync(making)
    making.replace(folder / f"{schema}.{kind}")
    sync(folder)


def _read(path: Path) -> bytes:
    """A plain file of the home; empty where there is none, or a large one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    return data if len(data) <= _BYTES else b""


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _present(home: Path) -> int | None:
    try:
        with os.fdopen(contents.opened(home, CONFIG), "rb") as file:
            return schema_in(file.read(_BYTES))
    except OSError:
        return None


def _kept(home: Path) -> list[int]:
    place = _place(home)
    if place.is_symlink() or not place.is_dir():
        return []
    names = [_KEPT.fullmatch(path.name) for path in place.iterdir() if _is_plain(path)]
    return [int(name[1]) for name in names if name]


def _place(home: Path) -> Path:
    return contents.ours(home) / FOLDER


def _folder(home: Path) -> Path:
    folder = _place(home)
    if folder.is_symlink() or not folder.is_dir():
        contents.make_free(folder)
        folder.mkdir(mode=0o700, parents=True)
    return folder
