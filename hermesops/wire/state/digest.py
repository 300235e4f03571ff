"""The digest of a state: counts and hashes of memory, skills, sessions, messages, cron jobs and pairings.

The same content gives the same digest in whatever order it comes, and what a running agent rewrites without meaning
(run times of jobs, usage counters) is ignored. No text of a user's is in it. It is made as the agent's own user.

Source: ``hermes_state.py``, ``cron/jobs.py``, ``gateway/pairing.py``, ``tools/skill_usage.py`` of hermes-agent 0.19.0.
"""

import hashlib
import json
import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from hermesops.wire.errors import NotReadyError
from hermesops.wire.state import contents, databases
from hermesops.wire.state.contents import DATABASE, Item, Walk

KINDS = ("memory", "skills", "sessions", "messages", "cron", "pairings")
"""What a state consists of."""

UNREADABLE = -1
"""The count of what cannot be read, as a damaged database."""

DOCUMENT_BYTES = 16 << 20

_ROWS = {
    "sessions": ("id", "source", "user_id", "parent_session_id", "started_at", "title"),
    "messages": ("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp"),
}
"""Columns of message contents; others count tokens, cost and turns, or differ between versions of the agent."""

_JOBS = b"cron/jobs.json"
_JOB = (
    *("id", "name", "prompt", "skills", "model", "provider", "script", "no_agent", "context_from"),
    *("schedule", "enabled", "deliver", "enabled_toolsets", "workdir"),
)
"""What the user asked for; the rest of a job is the outcome of its runs."""

_MODULUS = 1 << 256

_COUNTING_S = 1800.0
"""Limit of a count. Reading usually ends before, wherever SQLite can be interrupted."""

_FORK = multiprocessing.get_context("fork")
"""The process that counts has one thread, and nothing to import."""


@dataclass
class _Part:
    count: int = 0
    total: int = 0

    def add(self, *values: object) -> None:
        self._count(json.dumps(values, default=_word, sort_keys=True).encode())

    def add_row(self, row: tuple[object, ...]) -> None:
        """Add a row of a database. Its texts are bytes for speed: there may be millions of rows."""
        words: list[bytes] = []
        for value in row:
            word = value if isinstance(value, bytes) else repr(value).encode()
            # A text of b"1" and a number 1 are two things, and a column does not run into the next one.
            words += (b"t%d " if word is value else b"v%d ") % len(word), word
        self._count(b"".join(words))

    def _count(self, data: bytes) -> None:
        item = hashlib.sha256(data).digest()
        self.count += 1
        # A sum ignores the order, and needs no memory for a million messages.
        self.total = (self.total + int.from_bytes(item, "big")) % _MODULUS

    def result(self) -> dict[str, Any]:
        return {"count": self.count, "digest": hashlib.sha256(f"{self.count} {self.total:x}".encode()).hexdigest()}


def _word(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


@dataclass
class Digest:
    """A digest that is built from files and rows."""

    _parts: dict[str, _Part] = field(default_factory=lambda: {kind: _Part() for kind in KINDS})
    _broken: dict[str, str] = field(default_factory=dict)

    def file(self, name: bytes, sha256: str) -> None:
        """Add a file by its content's SHA-256; see ``is_hashed``."""
        self._parts["skills" if name.startswith(b"skills/") else "memory"].add(name, sha256)

    def document(self, name: bytes, data: bytes) -> None:
        """Add a file of JSON by some of its fields; see ``is_document``."""
        kind = "cron" if name == _JOBS else "pairings"
        try:
            items = jobs_in(data) if name == _JOBS else tuple(json.loads(data).items())
        except (ValueError, AttributeError, TypeError, RecursionError):
            self._broken[kind] = hashlib.sha256(data).hexdigest()
            return
        for item in items:
            if isinstance(item, Mapping):
                self._parts[kind].add(*((key, item.get(key)) for key in _JOB))
            else:
                self._parts[kind].add(name.rpartition(b"/")[2], item[0])

    def add(self, tables: "Tables") -> None:
        """Add the tables of the agent's database."""
        self._parts.update(tables)

    def no_database(self) -> None:
        """Note that the agent's database cannot be read; a copy of it has other bytes, so they are not hashed."""
        self._broken["sessions"] = self._broken["messages"] = "unreadable"

    def result(self) -> dict[str, dict[str, Any]]:
        """Count and digest of each kind of content."""
        broken = {kind: {"count": UNREADABLE, "digest": word} for kind, word in self._broken.items()}
        return {kind: broken.get(kind) or part.result() for kind, part in self._parts.items()}


Tables = dict[str, _Part]
"""The digests of single tables; only ``Digest.add`` takes them."""


def tables_of(connection: sqlite3.Connection) -> Tables:
    """Read the rows of the agent's database.

    Raises:
        sqlite3.DatabaseError: It is damaged, or no database.
    """
    connection.text_factory = bytes
    tables = {table: _Part() for table in _ROWS}
    for table, names in _ROWS.items():
        for row in databases.rows(connection, table, names):
            tables[table].add_row(row)
    return tables


def digest_of(home: Path, *, is_alone: bool = False) -> tuple[dict[str, dict[str, Any]], int]:
    """The digest of a home's state, and the bytes that everything in the home takes on the disk.

    ``is_alone``: no other process has its databases open, or will.

    Raises:
        NotReadyError: The database stayed locked.
    """
    walk, digest = Walk(home), Digest()
    for item in walk.items():
        if item.name == DATABASE:
            _add_database(home, digest, is_alone=is_alone)
        elif not item.is_folder and (is_hashed(item.name) or is_document(item.name)):
            try:
                with os.fdopen(contents.opened(home, item.name), "rb") as file:
                    _add_file(digest, item, file)
            except OSError:
                continue  # a copy would leave it out
    return digest.result(), walk.used


def _add_database(home: Path, digest: Digest, *, is_alone: bool) -> None:
    try:
        with databases.opened(contents.path_of(home, DATABASE), is_alone=is_alone) as connection:
            connection.execute("BEGIN")  # sessions and messages of one moment
            digest.add(tables_of(connection))
    except sqlite3.DatabaseError as error:
        if databases.is_locked(error):
            raise NotReadyError(f"{os.fsdecode(DATABASE)} is locked") from error
        digest.no_database()


def _add_file(digest: Digest, item: Item, file: BinaryIO) -> None:
    if is_document(item.name):
        data = file.read(DOCUMENT_BYTES + 1)
        digest.document(item.name, data if len(data) <= DOCUMENT_BYTES else b"")
    elif not contents.is_database(file.fileno()):  # a copy of one has the same rows, and other bytes
        digest.file(item.name, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]  # as typeshed has it


def unreadable(home: Path) -> str:
    """The reason why the agent's database is unreadable, while no other process has it open; empty if readable."""
    try:
        with databases.opened(contents.path_of(home, DATABASE), is_alone=True) as connection:
            tables_of(connection)
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


@contextmanager
def counting(copied: Path) -> Iterator[Callable[[], Tables]]:
    """Count the agent's database in a process of its own while the context lasts.

    The bytes of ``copied`` can be sent meanwhile; nobody else opens it, and it stays until it is counted. A thread
    would not do: reading a million rows in Python delays the sender at every block.

    Yields:
        A function that waits for the process and returns the digests. It raises ``sqlite3.DatabaseError`` where the
        copy is damaged, no database, or endless, and ``NotReadyError`` where the process was killed.
    """
    answer, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_count, args=(copied, theirs), daemon=True)
    process.start()
    theirs.close()

    def tables() -> Tables:
        if not answer.poll(_COUNTING_S):
            raise sqlite3.DatabaseError(f"no end after {_COUNTING_S:g} s")
        try:
            result: Tables | None = answer.recv()
        except EOFError:
            raise NotReadyError("the counting of a database was cut short") from None
        if result is None:
            raise sqlite3.DatabaseError("it cannot be read")
        return result

    try:
        yield tables
    finally:
        process.kill()
        process.join()
        answer.close()


def _count(copied: Path, answer: Connection) -> None:
    tables: Tables | None
    try:
        with databases.opened(os.fsencode(copied), is_alone=True) as connection:
            tables = tables_of(connection)
    except sqlite3.DatabaseError:
        tables = None
    answer.send(tables)


def is_hashed(name: bytes) -> bool:
    """Whether a file's whole content counts, as that of memories and skills."""
    first, _, rest = name.partition(b"/")
    # Names with a dot directly below skills are the agent's own records: usage, what it came with, what it suppressed.
    return name == b"SOUL.md" or (first in {b"memories", b"skills"} and not rest.startswith(b"."))


def is_document(name: bytes) -> bool:
    """Whether a file is JSON to be compared by meaning: jobs and approved senders."""
    folder, _, last = name.rpartition(b"/")
    return name == _JOBS or (folder.rpartition(b"/")[2] == b"pairing" and last.endswith(b"-approved.json"))


def jobs_in(data: bytes) -> tuple[Mapping[str, Any], ...]:
    """The cron jobs in the agent's file of them.

    Raises:
        ValueError: It holds none.
    """
    try:
        raw = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    jobs = raw.get("jobs", []) if isinstance(raw, dict) else raw
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ValueError("not a list of jobs")
    return tuple(jobs)
