"""Copies of an agent's databases and configuration beside the agent's own: for a rollback, and for a trial.

It runs as the agent's own user, while no gateway runs (but for the trial copy). Below our folder in the home::

    kept/NAME/     databases and configuration as they were when the old release's gateway had stopped
    newer/NAME/    what was there when they were put back, and ``not-migrated.jsonl``
    trial/         the copy for a trial, whose gateway has neither cron jobs nor messengers; nobody reads it afterwards

Putting a copy back only renames, so it needs no room on the disk; migrating rows does, and comes last. Both may be
killed anywhere and continue when they are called again.
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hermesops.programs.node.state import user_config
from hermesops.programs.node.state.config_changes import WHOLE, SettingsResult
from hermesops.programs.node.state.row_migration import MigratedRows, line, migrate_rows
from hermesops.programs.node.system.files import sync
from hermesops.wire.errors import BadRequestError, NotReadyError, RefusedError
from hermesops.wire.state import contents, databases
from hermesops.wire.state.contents import AGENTS_OWN, CONFIG

_MANIFEST = "names.json"
_LISTED = "not-migrated.jsonl"
_DONE = "migrated.json"
_COPIED = (*sorted(AGENTS_OWN), CONFIG)
_CONFIG = os.fsdecode(CONFIG)
_NAMES = tuple(map(os.fsdecode, _COPIED))
_FOLDERS = sorted({str(Path(each).parent) for each in _NAMES})
_BESIDE = ("-wal", "-shm", "-journal")
_NAME = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,110}")
_SPARE = 64 << 20
"""Bytes that a trial copy leaves free for the running agent."""


@dataclass(frozen=True)
class RestoreResult:
    """The outcome of restoring a copy.

    Attributes:
        migrated: Rows written since that are in the older databases now.
        listed: Rows written since that are not.
        kept: Folder of the newer state and the list, below the home; empty if nothing was restored.
        settings_migrated: Settings that the user changed since and that are in force.
        settings_lost: Names of those that are not; they are in the newer configuration.
    """

    migrated: int = 0
    listed: int = 0
    kept: str = ""
    settings_migrated: int = 0
    settings_lost: tuple[str, ...] = ()


def keep(home: Path, name: str) -> None:
    """Keep the databases and the configuration; all of it is on the disk when this returns.

    Raises:
        NotReadyError: A database is locked, or there is no room.
    """
    place, making = _place(home, "kept", name), _place(home, "kept", f"{name}.part")
    if place.exists():
        return
    contents.make_free(making)
    making.mkdir(mode=0o700, parents=True)
    names = [each for each in _NAMES if _is_file(home / each)]
    for each in names:
        (making / each).parent.mkdir(mode=0o700, exist_ok=True)
        copy_file(home, os.fsencode(each), making / each)
    (making / _MANIFEST).write_text(json.dumps(names), encoding="utf-8")
    # A rollback must not need room: the folders that it renames into are made before it is needed.
    for folder in _FOLDERS:
        (_place(home, "newer", name) / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(_place(home, "newer", name) / folder)
    _sync(making)
    making.rename(place)
    sync(place.parent)


def restore(home: Path, name: str) -> RestoreResult:
    """Replace the present state by a kept copy; does nothing where none of that name is kept.

    Raises:
        NotReadyError: Names cannot be renamed.
    """
    place, newer = _place(home, "kept", name), _place(home, "newer", name)
    if place.exists():
        _exchange(home, place, newer, json.loads((place / _MANIFEST).read_text(encoding="utf-8")))
        gone = place.with_name(f"{name}.gone")
        place.rename(gone)  # in one step: a half-made one must not be restored
        contents.remove(gone)
    if not newer.exists():
        return RestoreResult()
    settings = _migrate_settings(home, newer / _CONFIG)
    done, folder = _migrate(home, newer), f"{os.fsdecode(contents.OURS)}/newer/{name}"
    return RestoreResult(done.migrated, done.listed, folder, settings.migrated, settings.lost)


def _migrate_settings(home: Path, newer: Path) -> SettingsResult:
    try:
        return user_config.migrate(home, newer)
    except OSError:  # never a reason to stay
        return SettingsResult(lost=(WHOLE,))


def preview(home: Path, name: str) -> RestoreResult:
    """Count the rows that ``restore`` would migrate and list now, and name the settings; changes nothing.

    Returns:
        The counts and names, and ``kept`` with the folder of the kept state; all empty where none of that name is kept
        any more.

    Raises:
        NotReadyError: A database cannot be read.
    """
    place = _place(home, "kept", name)
    if not place.exists():
        return RestoreResult()
    done, settings = MigratedRows(), user_config.preview_migration(home, place / _CONFIG)
    for each in json.loads((place / _MANIFEST).read_text(encoding="utf-8")):
        if each == _CONFIG or not _is_file(home / each):
            continue
        try:
            done += migrate_rows(place / each, home / each, lambda _table, _row: None, dry_run=True)
        except sqlite3.DatabaseError as error:
            raise NotReadyError(f"{each}: {error}") from error
    folder = f"{os.fsdecode(contents.OURS)}/kept/{name}"
    return RestoreResult(done.migrated, done.listed, folder, settings.migrated, settings.lost)


def prune(home: Path, older_than_s: float) -> int:
    """Remove copies that are older than a limit; return their number."""
    removed = 0
    for kind in ("kept", "newer"):
        for place in sorted((contents.ours(home) / kind).glob("*")):
            if place.lstat().st_mtime < time.time() - older_than_s:
                contents.remove(place)
                removed += 1
    return removed


def _exchange(home: Path, place: Path, newer: Path, names: list[str]) -> None:
    for folder in _FOLDERS:
        (newer / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in _NAMES:
        # One that the older release had, until it is back; one that it had not, until it is away.
        if (place / each).exists() if each in names else _is_file(home / each):
            for ending in (*_BESIDE, ""):  # the file last: until then this is done again
                with suppress(FileNotFoundError):
                    (home / f"{each}{ending}").rename(newer / f"{each}{ending}")
            if each in names:
                (place / each).rename(home / each)
    for folder in _FOLDERS:
        if (home / folder).is_dir():
            sync(home / folder)
    _sync(newer)


def _migrate(home: Path, newer: Path) -> MigratedRows:
    """Migrate the rows written since into the older databases, once."""
    if (newer / _DONE).exists():
        return MigratedRows(**json.loads((newer / _DONE).read_text(encoding="utf-8")))
    done = MigratedRows()
    try:
        with (newer / _LISTED).open("w", encoding="utf-8") as out:
            for each in _NAMES:
                if each != _CONFIG and _is_file(newer / each) and _is_file(home / each):
                    done += _migrate_database(home / each, newer / each, each, out.write)
        (newer / _DONE).write_text(json.dumps(asdict(done)), encoding="utf-8")
    except OSError:
        return done  # no room for the list: the newer databases themselves are still there
    return done


def _migrate_database(older: Path, newer: Path, name: str, write: Callable[[str], Any]) -> MigratedRows:
    try:
        return migrate_rows(older, newer, lambda table, row: write(line(name, table, row)))
    except sqlite3.DatabaseError as error:
        write(line(name, "", {"error": str(error)}))
        return MigratedRows(0, 1)


def _sync(folder: Path) -> None:
    """Write a folder, and everything below it, to the disk."""
    for path in (folder, *folder.rglob("*")):
        sync(path)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _place(home: Path, kind: str, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise BadRequestError("name: not of the expected form")
    return contents.ours(home) / kind / name


def trial_folder(home: Path) -> Path:
    """The folder of the copy for a trial."""
    return contents.ours(home) / "trial"


def make_trial_copy(home: Path, schema: int) -> None:
    """Copy the databases and the configuration for a trial, while the agent may run.

    ``schema`` is that of the tried release: it gets the configuration that a switch to it would put in place.

    Raises:
        RefusedError: The copy does not fit.
        NotReadyError: A database stayed locked.
    """
    place = trial_folder(home)
    contents.make_free(place)
    names = [name for name in _COPIED if _is_plain(home, name)]
    size = sum(os.stat(contents.path_of(home, name)).st_size for name in names)  # noqa: PTH116 - bytes
    free = shutil.disk_usage(home).free
    if free < size + size // 8 + _SPARE:
        raise RefusedError(
            f"no room for a copy of the state: {size >> 20} MiB and {_SPARE >> 20} MiB to spare, {free >> 20} MiB free"
        )
    for part in ("", "cron", "logs", "sessions", "memories", "skills"):
        (place / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / ".no-bundled-skills").touch()  # they are the slot's own, and take most of a start on a new home
    for name in names:
        copy_file(home, name, place / os.fsdecode(name))
    config = user_config.content(home, schema)
    if config is not None:
        contents.make_free(place / _CONFIG)
        (place / _CONFIG).touch(mode=0o600)
        (place / _CONFIG).write_bytes(config)


def trial_schemas(home: Path) -> dict[str, str]:
    """A digest of the present schema and version of each database of the trial copy, and of its configuration."""
    place, digests = trial_folder(home), {}
    for name in sorted(AGENTS_OWN):
        if _is_plain(place, name):
            try:
                with databases.opened(contents.path_of(place, name)) as connection:
                    rows = connection.execute(
                        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"
                    ).fetchall()
                    rows += connection.execute("PRAGMA user_version").fetchall()
                    with suppress(sqlite3.DatabaseError):
                        rows += connection.execute("SELECT * FROM schema_version").fetchall()
                digests[os.fsdecode(name)] = hashlib.sha256(repr(rows).encode()).hexdigest()
            except sqlite3.DatabaseError as error:
                digests[os.fsdecode(name)] = f"unreadable: {error}"
    if _is_plain(place, CONFIG):
        digests[_CONFIG] = hashlib.sha256((place / _CONFIG).read_bytes()).hexdigest()
    return digests


def remove_trial_copy(home: Path) -> None:
    """Remove the copy for a trial; safe where there is none."""
    contents.make_free(trial_folder(home))


def copy_file(home: Path, name: bytes, target: Path) -> None:
    """Copy one moment of a database, or a plain file.

    Raises:
        NotReadyError: The database stayed locked, or there is no room.
    """
    try:
        with os.fdopen(contents.opened(home, name), "rb") as file:
            if not contents.is_database(file.fileno()):
                with target.open("wb") as out:
                    shutil.copyfileobj(file, out)
                return
        databases.copy(contents.path_of(home, name), target)
    except sqlite3.DatabaseError as error:
        raise NotReadyError(f"{os.fsdecode(name)}: {error}") from error


def _is_plain(home: Path, name: bytes) -> bool:
    try:
        os.close(contents.opened(home, name))
    except OSError:
        return False
    return True
