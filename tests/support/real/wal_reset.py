"""Provokes SQLite's WAL-reset defect: a checkpoint stands between two reads while another connection resets the log.

Run by the distribution's Python, standard library only: ``wal_reset.py FOLDER SECONDS [LIBRARY]``. A child calls for
checkpoints without a pause. It is stopped at random moments; while it stands, this process commits, which resets a log
that was copied completely. A child that stood between its reading of the log's header and of the count of copied frames
then notes a wrong count, and frames of later transactions are never copied. Prints JSON: rounds, commits, rounds after
which the database was damaged or had lost a committed row, and the version.

Source: sqlite.org/wal.html#walresetbug.
"""

import ctypes
import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

_SONAME = "libsqlite3.so.0"
_ROWS = 200
_PASSIVE = 0


def main(folder: str, seconds: float, library: str = _SONAME) -> None:
    """Run rounds until the time is over."""
    ctypes.CDLL(library, os.RTLD_NOW)  # before _sqlite3 is imported: it takes what is loaded under its soname
    import sqlite3  # noqa: PLC0415 - as said

    rounds = commits = 0
    damaged: list[str] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        path = Path(folder, f"{rounds}.db")
        database = _Database(sqlite3, path)
        child = _checkpoints(library, path)
        try:
            # A wrong count stays until the log is reset again, so a database gets several chances before it is checked.
            for _ in range(40):
                database.meet(child)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        rounds, commits = rounds + 1, commits + database.commits
        if problem := database.problem():
            damaged.append(problem)
        for each in Path(folder).glob(f"{path.name}*"):
            each.unlink()
    about = {"version": sqlite3.sqlite_version, "rounds": rounds, "commits": commits}
    sys.stdout.write(json.dumps({**about, "damaged": len(damaged), "first": damaged[:3]}))


class _Database:
    """One database, and what its rows must be."""

    def __init__(self, sqlite3, path) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - a module
        self._sqlite3, self._path = sqlite3, path
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
        for statement in ("journal_mode=WAL", "synchronous=OFF", "wal_autocheckpoint=0"):
            self._db.execute(f"PRAGMA {statement}")
        self._db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT, filler BLOB)")
        self._db.execute("CREATE INDEX texts ON rows (text)")
        self._rows: dict[int, str] = {}
        self.commits = 0
        for number in range(_ROWS):
            self._write(number)

    def _write(self, number: int) -> None:
        text = f"{random.random():.17f}"  # noqa: S311 - no secret
        self._db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, zeroblob(900))", (number, text))
        self._rows[number] = text
        self.commits += 1

    def meet(self, child: int) -> None:
        """Fill the log, let the child copy it, stop the child somewhere, reset the log, and let the child go on."""
        for _ in range(10):
            self._write(random.randrange(_ROWS))  # noqa: S311 - as above
        _wait(0.0005 + random.random() * 0.0015)  # noqa: S311 - as above
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)
        self._write(random.randrange(_ROWS))  # noqa: S311 - as above
        os.kill(child, signal.SIGCONT)
        _wait(0.0003)
        for _ in range(20):
            self._write(random.randrange(_ROWS))  # noqa: S311 - as above

    def problem(self) -> str:
        """What is wrong with the database; empty for nothing."""
        self._db.close()
        db = self._sqlite3.connect(self._path)
        try:
            verdict = db.execute("PRAGMA integrity_check(3)").fetchall()
            rows = dict(db.execute("SELECT id, text FROM rows NOT INDEXED"))
        except self._sqlite3.DatabaseError as error:
            return str(error)
        finally:
            db.close()
        if verdict != [("ok",)]:
            return str(verdict[0][0])[:200]
        lost = sum(rows.get(number) != text for number, text in self._rows.items())
        return f"{lost} committed rows are lost" if lost else ""


def _wait(seconds: float) -> None:
    select.select([], [], [], seconds)


def _checkpoints(library: str, path: Path) -> int:
    child = os.fork()
    if child:
        return child
    lib, db = ctypes.CDLL(library, os.RTLD_NOW), ctypes.c_void_p()
    lib.sqlite3_open(os.fsencode(path), ctypes.byref(db))
    lib.sqlite3_exec(db, b"SELECT count(*) FROM rows", None, None, None)
    checkpoint = lib.sqlite3_wal_checkpoint_v2
    while True:
        checkpoint(db, None, _PASSIVE, None, None)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
