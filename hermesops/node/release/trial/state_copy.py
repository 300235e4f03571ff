"""A private copy of an agent's databases and configuration, for a gateway that is only tried.

It runs as the agent's own user. What is not copied is not tried: no cron job runs, no messenger has its token, and
nothing that the tried gateway writes is ever read by the agent.
"""

import hashlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.state import contents, databases
from hermesops.node.state.archive.tar_stream import AGENTS_OWN, empty

CONFIG = b"config.yaml"
_SPARE = 64 << 20
"""Bytes that must stay free for the agent that runs meanwhile."""


def folder(home: Path) -> Path:
    """Where the copy is."""
    return home / os.fsdecode(contents.OURS) / "trial"


def make(home: Path) -> dict[str, Any]:
    """Copy; says how many bytes.

    Raises:
        RefusedError: It does not fit.
        NotReadyError: A database stayed locked.
    """
    place = folder(home)
    empty(place)
    names = [name for name in (*sorted(AGENTS_OWN), CONFIG) if _is_plain(home, name)]
    size = sum(os.stat(databases.path_of(home, name)).st_size for name in names)  # noqa: PTH116 - bytes
    _refuse_full(home, size)
    for part in ("", "cron", "logs", "sessions", "memories", "skills"):
        (place / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / ".no-bundled-skills").touch()  # they are the slot's own, and take the larger part of a start on a new home
    for name in names:
        copy(home, name, place / os.fsdecode(name))
    return {"bytes": size}


def copy(home: Path, name: bytes, target: Path) -> None:
    """Copy one moment of a database, or a plain file.

    Raises:
        NotReadyError: It stayed locked, or there is no room.
    """
    try:
        with os.fdopen(contents.opened(home, name), "rb") as file:
            if not contents.is_database(file.fileno()):
                with target.open("wb") as out:
                    shutil.copyfileobj(file, out)
                return
        databases.copy(databases.path_of(home, name), target)
    except sqlite3.DatabaseError as error:
        raise NotReadyError(f"{os.fsdecode(name)}: {error}") from error


def schemas(home: Path) -> dict[str, str]:
    """What each database of the copy is like by now: a digest of its schema and its own versions."""
    place, found = folder(home), {}
    for name in sorted(AGENTS_OWN):
        if _is_plain(place, name):
            try:
                with databases.opened(databases.path_of(place, name)) as held:
                    rows = held.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
                    rows += held.execute("PRAGMA user_version").fetchall()
                    rows += _versions(held)
                found[os.fsdecode(name)] = hashlib.sha256(repr(rows).encode()).hexdigest()
            except sqlite3.DatabaseError as error:
                found[os.fsdecode(name)] = f"unreadable: {error}"
    if _is_plain(place, CONFIG):
        found[os.fsdecode(CONFIG)] = hashlib.sha256((place / os.fsdecode(CONFIG)).read_bytes()).hexdigest()
    return found


def end(home: Path) -> dict[str, Any]:
    """Remove the copy."""
    empty(folder(home))
    return {}


def _versions(held: sqlite3.Connection) -> list[Any]:
    try:
        return held.execute("SELECT * FROM schema_version").fetchall()
    except sqlite3.DatabaseError:
        return []


def _is_plain(home: Path, name: bytes) -> bool:
    try:
        os.close(contents.opened(home, name))
    except OSError:
        return False
    return True


def _refuse_full(home: Path, size: int) -> None:
    free = shutil.disk_usage(home).free
    if free < size + size // 8 + _SPARE:
        raise RefusedError(
            f"no room for a copy of the state: {size >> 20} MiB and {_SPARE >> 20} MiB to spare, {free >> 20} MiB free"
        )
