"""The state of before a change of release, kept beside the agent's, and put back in its place.

It runs as the agent's own user, while no gateway runs. Below our folder in the home::

    kept/NAME/     databases and configuration as they were when the old release's gateway had stopped
    newer/NAME/    what was there when they were put back, and ``not-carried.jsonl``

Putting back only renames, so it needs no room on the disk; carrying rows over does, and comes last. Both may be killed
anywhere and go on when they are called again.
"""

import json
import os
import re
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.node.errors import BadRequestError, NotReadyError
from hermesops.node.release.trial.state_copy import CONFIG, copy
from hermesops.node.state import contents
from hermesops.node.state.archive.tar_stream import AGENTS_OWN, empty
from hermesops.node.state.row_migration import MigratedRows, line, migrate_rows
from hermesops.node.system.files import sync

_MANIFEST = "names.json"
_LISTED = "not-carried.jsonl"
_DONE = "carried.json"
_NAMES = tuple(os.fsdecode(name) for name in (*sorted(AGENTS_OWN), CONFIG))
_BESIDE = ("-wal", "-shm", "-journal")
_NAME = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,110}")


@dataclass(frozen=True)
class RestoreResult:
    """What came of putting a copy back.

    Attributes:
        migrated: Rows written since that the older databases hold now.
        listed: Rows that they do not.
        kept: Where the newer state and the list are, below the home; empty where nothing was put back.
    """

    migrated: int = 0
    listed: int = 0
    kept: str = ""


def keep(home: Path, name: str) -> dict[str, Any]:
    """Keep the databases and the configuration; all of it is on the disk when this returns.

    Raises:
        NotReadyError: One of them is locked, or there is no room.
    """
    place, making = _place(home, "kept", name), _place(home, "kept", f"{name}.part")
    if place.exists():
        return {}
    empty(making)
    making.mkdir(mode=0o700, parents=True)
    names = [each for each in _NAMES if _is_file(home / each)]
    for each in names:
        (making / each).parent.mkdir(mode=0o700, exist_ok=True)
        copy(home, os.fsencode(each), making / each)
    (making / _MANIFEST).write_text(json.dumps(names), encoding="utf-8")
    # The way back must not need room: what it renames into is there before it is needed.
    for folder in {str(Path(each).parent) for each in _NAMES}:
        (_place(home, "newer", name) / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        _on_disk(_place(home, "newer", name) / folder)
    _on_disk(making)
    making.rename(place)
    _on_disk(place.parent, but_files=True)
    return {}


def restore(home: Path, name: str) -> RestoreResult:
    """Put a kept state in the place of what is there; does nothing where none of that name is kept.

    Raises:
        NotReadyError: Names cannot be renamed.
    """
    place, newer = _place(home, "kept", name), _place(home, "newer", name)
    if place.exists():
        _exchange(home, place, newer, json.loads((place / _MANIFEST).read_text(encoding="utf-8")))
        gone = place.with_name(f"{name}.gone")
        place.rename(gone)  # in one step: half of it must not be taken for something to put back
        contents.remove(gone)
    if not newer.exists():
        return RestoreResult()
    told = f"{os.fsdecode(contents.OURS)}/newer/{name}"
    done = _carried(home, newer)
    return RestoreResult(done.migrated, done.listed, told)


def weigh(home: Path, name: str) -> RestoreResult:
    """What putting a copy back would come to by now; changes nothing.

    Raises:
        NotReadyError: No state of that name is kept, or a database cannot be read.
    """
    place = _place(home, "kept", name)
    if not place.exists():
        raise NotReadyError(f"no state {name} is kept")
    done = MigratedRows()
    for each in json.loads((place / _MANIFEST).read_text(encoding="utf-8")):
        if each == os.fsdecode(CONFIG) or not _is_file(home / each):
            continue
        try:
            done += migrate_rows(place / each, home / each, lambda _table, _row: None, is_meant=False)
        except sqlite3.DatabaseError as error:
            raise NotReadyError(f"{each}: {error}") from error
    return RestoreResult(done.migrated, done.listed)


def outdated(home: Path, older_than_s: float) -> int:
    """Remove what was kept longer ago than that; how many there were."""
    removed = 0
    for kind in ("kept", "newer"):
        for place in sorted((home / os.fsdecode(contents.OURS) / kind).glob("*")):
            if place.lstat().st_mtime < time.time() - older_than_s:
                contents.remove(place)
                removed += 1
    return removed


def _exchange(home: Path, place: Path, newer: Path, names: list[str]) -> None:
    for folder in {str(Path(each).parent) for each in _NAMES}:
        (newer / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in _NAMES:
        # One that the older release had, until it is back; one that it had not, until it is away.
        if (place / each).exists() if each in names else _is_file(home / each):
            for ending in (*_BESIDE, ""):  # the file last: until then this is done again
                with suppress(FileNotFoundError):
                    (home / f"{each}{ending}").rename(newer / f"{each}{ending}")
            if each in names:
                (place / each).rename(home / each)
    for within in {home / Path(each).parent for each in _NAMES}:
        _on_disk(within, but_files=True)
    _on_disk(newer)


def _carried(home: Path, newer: Path) -> MigratedRows:
    if (newer / _DONE).exists():
        return MigratedRows(**json.loads((newer / _DONE).read_text(encoding="utf-8")))
    done = MigratedRows()
    try:
        with (newer / _LISTED).open("w", encoding="utf-8") as out:
            for each in _NAMES:
                if each != os.fsdecode(CONFIG) and _is_file(newer / each) and _is_file(home / each):
                    done += _carried_of(home, newer, each, out.write)
        (newer / _DONE).write_text(json.dumps({"migrated": done.migrated, "listed": done.listed}), encoding="utf-8")
    except OSError:
        return done  # no room for the list: the newer databases themselves are still there
    return done


def _carried_of(home: Path, newer: Path, each: str, write: Any) -> MigratedRows:  # noqa: ANN401 - of a text file
    try:
        return migrate_rows(home / each, newer / each, lambda table, row: write(line(each, table, row)))
    except sqlite3.DatabaseError as error:
        write(line(each, "", {"error": str(error)}))
        return MigratedRows(0, 1)


def _on_disk(folder: Path, *, but_files: bool = False) -> None:
    """Have a folder's names, and what they name, be on the disk."""
    if not folder.is_dir():
        return
    for path in (folder, *(() if but_files else folder.rglob("*"))):
        sync(path)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _place(home: Path, kind: str, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise BadRequestError("name: not of the expected form")
    return home / os.fsdecode(contents.OURS) / kind / name
