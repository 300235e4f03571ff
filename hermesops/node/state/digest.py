"""What a state amounts to: counts and digests of memory, skills, sessions, messages, cron jobs and pairings.

Pure but for reading the rows of a database that it is given. The same content gives the same digest in whatever order
it comes, and what a running agent rewrites without meaning (run times of jobs, usage counters) is not looked at. No
text of a user's is in the outcome.

Source: ``hermes_state.py``, ``cron/jobs.py``, ``gateway/pairing.py``, ``tools/skill_usage.py`` of hermes-agent 0.19.0.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.node.state import databases

KINDS = ("memory", "skills", "sessions", "messages", "cron", "pairings")
"""What a state consists of."""

DATABASE = b"state.db"
"""The agent's sessions and messages, below its home."""

UNREADABLE = -1
"""The count where there is something that cannot be read, as a damaged database."""

_ROWS = {
    "sessions": ("id", "source", "user_id", "parent_session_id", "started_at", "title"),
    "messages": (
        "id",
        "session_id",
        "role",
        "content",
        "tool_call_id",
        "tool_calls",
        "tool_name",
        "timestamp",
    ),
}
"""The columns that say what was said; others count tokens, cost and turns, or differ between versions of the agent."""

_JOBS = b"cron/jobs.json"
_JOB = (
    "id",
    "name",
    "prompt",
    "skills",
    "model",
    "provider",
    "script",
    "no_agent",
    "context_from",
    "schedule",
    "enabled",
    "deliver",
    "enabled_toolsets",
    "workdir",
)
"""What was ordered; the rest of a job is what came of it."""

_MODULUS = 1 << 256


@dataclass
class _Part:
    count: int = 0
    total: int = 0

    def add(self, *values: object) -> None:
        self._count(json.dumps(values, default=_word, sort_keys=True).encode())

    def add_row(self, row: tuple[object, ...]) -> None:
        """Take in a row of a database, whose texts are bytes: there may be millions."""
        words: list[bytes] = []
        for value in row:
            word = value if isinstance(value, bytes) else repr(value).encode()
            # A text of b"1" and a number 1 are two things, and a column does not run into the next one.
            words += (b"t%d " if word is value else b"v%d ") % len(word), word
        self._count(b"".join(words))

    def _count(self, data: bytes) -> None:
        item = hashlib.sha256(data).digest()
        self.count += 1
        # A sum does not know the order, and needs no room for a million messages.
        self.total = (self.total + int.from_bytes(item, "big")) % _MODULUS

    def told(self) -> dict[str, Any]:
        return {"count": self.count, "digest": hashlib.sha256(f"{self.count} {self.total:x}".encode()).hexdigest()}


def _word(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


@dataclass
class Digest:
    """A digest in the making."""

    _parts: dict[str, _Part] = field(default_factory=lambda: {kind: _Part() for kind in KINDS})
    _broken: dict[str, str] = field(default_factory=dict)

    def file(self, name: bytes, sha256: str) -> None:
        """Take in a file of which only the content's SHA-256 counts; see ``is_hashed``."""
        self._parts["skills" if name.startswith(b"skills/") else "memory"].add(name, sha256)

    def document(self, name: bytes, data: bytes) -> None:
        """Take in a file of JSON of which only some fields count; see ``is_document``."""
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

    def database(self, connection: sqlite3.Connection) -> None:
        """Take in the rows of the agent's database.

        Raises:
            sqlite3.DatabaseError: It is damaged, or none.
        """
        self.add(tables_of(connection))

    def add(self, tables: "Tables") -> None:
        """Take in what the tables of the agent's database were found to amount to."""
        self._parts.update(tables)

    def no_database(self) -> None:
        """Take in that the agent's database cannot be read; a copy of it has other bytes, so they say nothing."""
        self._broken["sessions"] = self._broken["messages"] = "unreadable"

    def told(self) -> dict[str, dict[str, Any]]:
        """Count and digest of each kind."""
        broken = {kind: {"count": UNREADABLE, "digest": word} for kind, word in self._broken.items()}
        return {kind: broken.get(kind) or part.told() for kind, part in self._parts.items()}


Tables = dict[str, _Part]
"""What single tables amount to; only ``Digest.add`` takes it."""


def tables_of(connection: sqlite3.Connection) -> Tables:
    """What the rows of the agent's database amount to.

    Raises:
        sqlite3.DatabaseError: It is damaged, or none.
    """
    connection.text_factory = bytes
    tables = {table: _Part() for table in _ROWS}
    for table, names in _ROWS.items():
        for row in databases.rows(connection, table, names):
            tables[table].add_row(row)
    return tables


def is_hashed(name: bytes) -> bool:
    """Whether a file's whole content counts, as that of memories and skills."""
    first, _, rest = name.partition(b"/")
    # Names with a dot directly below skills are the agent's own books: usage, what it came with, what it suppressed.
    return name == b"SOUL.md" or (first in {b"memories", b"skills"} and not rest.startswith(b"."))


def is_document(name: bytes) -> bool:
    """Whether a file is JSON whose meaning counts: jobs, and who was let in."""
    folder, _, last = name.rpartition(b"/")
    return name == _JOBS or (folder.rpartition(b"/")[2] == b"pairing" and last.endswith(b"-approved.json"))


def jobs_in(data: bytes) -> tuple[Mapping[str, Any], ...]:
    """The cron jobs in the agent's file of them.

    Raises:
        ValueError: It is none.
    """
    try:
        raw = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    jobs = raw.get("jobs", []) if isinstance(raw, dict) else raw
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ValueError("not a list of jobs")
    return tuple(jobs)
