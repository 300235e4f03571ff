"""Exports an agent's state as lines of JSON, in the tables of the platform's design: a user's own data to take away.

It runs as the agent's own user and only reads. hermes-agent has tables of its own; the README of role ``hermes_node``
says how they are mapped.
"""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from hermesops.wire.errors import NotReadyError
from hermesops.wire.state import contents, databases
from hermesops.wire.state.contents import DATABASE, Walk
from hermesops.wire.state.digest import jobs_in

_TEXT_BYTES = 16 << 20
_SESSION = ("id", "source", "user_id", "parent_session_id", "title", "model", "started_at", "ended_at")
_MESSAGE = ("id", "session_id", "role", "content", "tool_calls", "token_count", "timestamp")
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


def write(home: Path, out: TextIO) -> dict[str, Any]:
    """Write every row, and at the end the counts by table.

    Raises:
        NotReadyError: The database is locked or damaged; the output is incomplete.
    """
    return {"counts": write_rows(_rows(home), out)}


def write_rows(rows: Iterable[tuple[str, Mapping[str, Any]]], out: TextIO) -> dict[str, int]:
    """Write rows as lines, and at the end their number by table."""
    counts: Counter[str] = Counter(
        dict.fromkeys(("sessions", "conversations", "skills", "memory", "cron", "pairings"), 0)
    )
    for table, row in rows:
        counts[table] += 1
        # Last: a row's own "table" is the agent's, and could fake the end of the export or another table.
        out.write(json.dumps({**row, "table": table}, default=_word) + "\n")
    out.write(json.dumps({"table": "end", "counts": counts}) + "\n")
    out.flush()
    return dict(counts)


def _rows(home: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    files = [item.name for item in Walk(home).items() if not item.is_folder]
    if DATABASE in files:
        try:
            with databases.opened(contents.path_of(home, DATABASE)) as connection:
                connection.execute("BEGIN")
                yield from _conversations(connection)
        except sqlite3.DatabaseError as error:
            raise NotReadyError(f"{os.fsdecode(DATABASE)} cannot be read: {error}") from error
    for name in files:
        yield from rows_of(name, partial(_read, home, name))


def _conversations(connection: sqlite3.Connection) -> Iterator[tuple[str, Mapping[str, Any]]]:
    connection.text_factory = lambda data: data.decode(errors="replace")
    platforms: dict[Any, Any] = {}
    for row in databases.rows(connection, "sessions", _SESSION):
        session = dict(zip(_SESSION, row, strict=True))
        platforms[session["id"]] = session["source"]
        yield "sessions", session
    for row in databases.rows(connection, "messages", _MESSAGE):
        message = dict(zip(_MESSAGE, row, strict=True))
        yield (
            "conversations",
            {
                "id": message["id"],
                "session_id": message["session_id"],
                "platform": platforms.get(message["session_id"]),
                "role": message["role"],
                "content": message["content"],
                "tool_calls": _parsed(message["tool_calls"]),
                "tokens_used": message["token_count"],
                "created_at": message["timestamp"],
            },
        )


def rows_of(name: bytes, read: Callable[[], str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of one file of the agent: a skill, a memory, jobs, pairings, or none.

    Its name is below the agent's home; ``read`` returns its content.
    """
    first, _, _ = name.partition(b"/")
    folder, _, last = name.rpartition(b"/")
    shown = os.fsdecode(name).encode(errors="replace").decode()
    if last == b"SKILL.md" and first == b"skills":
        text = read()
        head = _head(text)
        words = {key: head.get(key) for key in ("name", "description")}
        yield "skills", {"path": shown, **words, "steps": text}
    elif first == b"memories" or name == b"SOUL.md":
        yield "memory", {"path": shown, "content": read()}
    elif first == b"a2a_conversations":
        yield "a2a_conversations", {"path": shown, "content": read()}
    elif name == b"cron/jobs.json":
        try:
            yield from (("cron", job) for job in jobs_in(read().encode()))
        except ValueError as error:
            raise NotReadyError("cron/jobs.json cannot be read") from error
    elif folder.rpartition(b"/")[2] == b"pairing" and last.endswith(b"-approved.json"):
        users = _parsed(read())
        for user, about in users.items() if isinstance(users, dict) else ():
            yield (
                "pairings",
                {"platform": os.fsdecode(last).removesuffix("-approved.json"), "user": user, "about": about},
            )


def _read(home: Path, name: bytes) -> str:
    try:
        with os.fdopen(contents.opened(home, name), "rb") as file:
            return file.read(_TEXT_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _head(text: str) -> dict[str, str]:
    """The header of a skill, of which only plain ``key: value`` is read."""
    match = _HEAD.match(text)
    pairs = (line.partition(":") for line in (match[1].splitlines() if match else ()))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs if key and not key[0].isspace()}


def _parsed(text: object) -> Any:  # noqa: ANN401 - JSON as the agent keeps it
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _word(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
