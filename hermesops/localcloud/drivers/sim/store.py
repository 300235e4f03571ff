"""The database of a simulated world: one SQLite file of machines, their files, images and copies of states.

What is committed outlives a killed server; a request is answered after its commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from hermesops.localcloud.store.database import opened

FILE = "machines.db"
"""Its file in the world's folder."""

_TABLES = """
CREATE TABLE IF NOT EXISTS machines (
    id TEXT PRIMARY KEY, number INTEGER UNIQUE, hostname TEXT, token TEXT, image_id TEXT, vcpu INTEGER,
    memory_mib INTEGER, disk_gib INTEGER, is_on INTEGER, boots INTEGER, booted_at REAL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    owner TEXT, path TEXT, mode INTEGER, uid INTEGER, gid INTEGER, data BLOB, PRIMARY KEY (owner, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS units (owner TEXT PRIMARY KEY, state TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS copies (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, repository TEXT, opened_by TEXT, summary TEXT
);
CREATE TABLE IF NOT EXISTS images (id TEXT PRIMARY KEY, machine TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one machine.

    Attributes:
        boots: Number of boots; it identifies the present boot.
        booted_at: Time of the last boot, in seconds since 1970.
    """

    id: str
    number: int
    hostname: str
    token: str = field(repr=False)
    image_id: str | None
    vcpu: int
    memory_mib: int
    disk_gib: int
    is_on: bool = False
    boots: int = 0
    booted_at: float = 0.0


_FIELDS = tuple(each.name for each in fields(Record))


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of one name on a disk.

    Attributes:
        mode: With the kind, as ``stat`` has it; 0 where a name of the base was removed.
        data: Content of a file, target of a link.
    """

    mode: int
    uid: int
    gid: int
    data: bytes = field(repr=False)


class Store:
    """Opens the file; raises as ``opened``. Machines are held in memory besides, files are not."""

    def __init__(self, path: Path) -> None:
        with opened(path) as self._db:
            self._db.executescript(_TABLES)
            rows = self._db.execute(f"SELECT {', '.join(_FIELDS)} FROM machines ORDER BY number")  # noqa: S608 - our names
            records = (dict(zip(_FIELDS, row, strict=True)) for row in rows)
            self.machines = {each["id"]: Record(**{**each, "is_on": bool(each["is_on"])}) for each in records}
        self._changed: dict[str, Record | None] | None = None

    def close(self) -> None:
        """Close the file of the database."""
        self._db.close()

    @contextmanager
    def change(self) -> Iterator[dict[str, Record | None]]:
        """Commit the changes of the block in one step; an inner block is part of the outer one.

        Yields:
            The machines changed so far; ``None`` for one that was removed.
        """
        if self._changed is not None:
            yield self._changed
            return
        changed: dict[str, Record | None] = {}
        self._changed = changed
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield changed
        except BaseException:
            self._db.execute("ROLLBACK")
            self._changed = None
            raise
        self._db.execute("COMMIT")
        self._changed = None
        for machine_id, record in changed.items():
            if record is None:
                self.machines.pop(machine_id, None)
            else:
                self.machines[machine_id] = record

    # Machines

    def machine(self, machine_id: str) -> Record | None:
        """The record of a machine; ``None`` if there is none."""
        if self._changed and machine_id in self._changed:
            return self._changed[machine_id]
        return self.machines.get(machine_id)

    def put(self, record: Record) -> None:
        """Write a machine, new or changed."""
        with self.change() as changed:
            marks = ",".join("?" * len(_FIELDS))
            self._db.execute(f"INSERT OR REPLACE INTO machines VALUES ({marks})", astuple(record))  # noqa: S608 - marks only
            changed[record.id] = record

    def remove(self, machine_id: str) -> None:
        """Remove a machine and everything of it; absent is success."""
        with self.change() as changed:
            self._db.execute("DELETE FROM machines WHERE id = ?", (machine_id,))
            self._forget(machine_id)
            changed[machine_id] = None

    def _write(self, statement: str, *values: object) -> None:
        with self.change():
            self._db.execute(statement, values)

    def _forget(self, owner: str) -> None:
        self._db.execute("DELETE FROM files WHERE owner = ?", (owner,))
        self._db.execute("DELETE FROM units WHERE owner = ?", (owner,))

    # Files and units, of machines and of images

    def entry(self, owner: str, path: str) -> Entry | None:
        """The stored entry of a name; ``None`` if there is none."""
        row = self._db.execute(
            "SELECT mode, uid, gid, data FROM files WHERE owner = ? AND path = ?", (owner, path)
        ).fetchone()
        return Entry(*row) if row else None

    def below(self, owner: str, folder: str) -> dict[str, Entry]:
        """The stored entries below a folder, at any depth, by name."""
        rows = self._db.execute(
            "SELECT path, mode, uid, gid, data FROM files WHERE owner = ? AND path > ? AND path < ? ORDER BY path",
            (owner, f"{folder.rstrip('/')}/", f"{folder.rstrip('/')}0"),
        )
        return {row[0]: Entry(*row[1:]) for row in rows}

    def put_entry(self, owner: str, path: str, entry: Entry) -> None:
        """Store the entry of a name on a disk."""
        values = (owner, path, entry.mode, entry.uid, entry.gid, entry.data)
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", *values)

    def drop_entry(self, owner: str, path: str) -> None:
        """Remove the entry of a name on a disk."""
        self._write("DELETE FROM files WHERE owner = ? AND path = ?", owner, path)

    def unit(self, owner: str) -> str:
        """The state of the gateway's unit, as its user wrote it; empty if it was never written."""
        row = self._db.execute("SELECT state FROM units WHERE owner = ?", (owner,)).fetchone()
        return str(row[0]) if row else ""

    def put_unit(self, owner: str, state: str) -> None:
        """Write the state of the gateway's unit."""
        self._write("INSERT OR REPLACE INTO units VALUES (?, ?)", owner, state)

    # Images

    def image_machine(self, image_id: str) -> str | None:
        """The machine an image was taken of; ``None`` when there is no such image."""
        row = self._db.execute("SELECT machine FROM images WHERE id = ?", (image_id,)).fetchone()
        return str(row[0]) if row else None

    def copy(self, source: str, target: str) -> None:
        """Replace the files of one owner by those of another."""
        with self.change():
            self._forget(target)
            self._db.execute(
                "INSERT INTO files SELECT ?, path, mode, uid, gid, data FROM files WHERE owner = ?", (target, source)
            )
            self._db.execute("INSERT INTO units SELECT ?, state FROM units WHERE owner = ?", (target, source))

    def put_image(self, image_id: str, machine_id: str) -> None:
        """Store an image; its files are those of an owner of its id."""
        self._write("INSERT OR REPLACE INTO images VALUES (?, ?)", image_id, machine_id)

    def remove_image(self, image_id: str) -> None:
        """Remove an image and its files; absent is success."""
        with self.change():
            self._db.execute("DELETE FROM images WHERE id = ?", (image_id,))
            self._forget(image_id)

    # Copies of agents' states; their files are those of an owner of the copy's id

    def copies(self, repository: str) -> list[tuple[str, str, str]]:
        """Id, lock and summary of each copy in a repository, oldest first."""
        return self._db.execute(
            "SELECT id, opened_by, summary FROM copies WHERE repository = ? ORDER BY number", (repository,)
        ).fetchall()

    def put_copy(self, repository: str, copy_id: str, opened_by: str, summary: str) -> None:
        """Store a copy of a state in a repository."""
        columns = "INSERT INTO copies (id, repository, opened_by, summary) VALUES (?, ?, ?, ?)"
        self._write(columns, copy_id, repository, opened_by, summary)

    def bytes_of(self, owner: str) -> int:
        """Size of the content of an owner's own files, in bytes."""
        (total,) = self._db.execute(
            "SELECT coalesce(sum(length(data)), 0) FROM files WHERE owner = ?", (owner,)
        ).fetchone()
        return int(total)
