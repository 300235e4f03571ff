"""Copies of simulated agents' states, read by the platform itself, as it reads real ones from their repositories."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hermesops.localcloud.drivers.sim.node.state import digest_of
from hermesops.localcloud.drivers.sim.store import FILE, Entry

_PATIENCE_S = 30.0
"""For the world, which writes too."""


def digest_of_copy(world: Path, snapshot: str) -> dict[str, Any] | None:
    """What a copy in a world amounts to, counted anew from what is in it; ``None`` when there is no such copy."""
    with sqlite3.connect(f"file:{world / FILE}?mode=ro", uri=True) as db:
        if db.execute("SELECT 1 FROM copies WHERE id = ?", (snapshot,)).fetchone() is None:
            return None
        rows = db.execute("SELECT path, mode, uid, gid, data FROM files WHERE owner = ?", (snapshot,)).fetchall()
    return digest_of({path.removeprefix("/"): Entry(*rest) for path, *rest in rows})


def drop_copies(world: Path, snapshots: Sequence[str]) -> None:
    """Take copies out of a world; those that are not there are gone already."""
    with closing(sqlite3.connect(world / FILE, timeout=_PATIENCE_S)) as db, db:
        for snapshot in snapshots:
            db.execute("DELETE FROM copies WHERE id = ?", (snapshot,))
            db.execute("DELETE FROM files WHERE owner = ?", (snapshot,))
