"""Databases as a hostile agent leaves them in its home, and what each comes to when a backup of it is proved."""

import random
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_SESSION = "id, source, user_id, parent_session_id, started_at, title"
_ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE strftime('%s', 'now') > 0) SELECT x FROM n"
)
_MANY = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) "
_MANY_MESSAGES = f"{_MANY} INSERT INTO messages (content) SELECT x FROM n"  # noqa: S608 - our own
_MANY_SESSIONS = f"{_MANY} INSERT INTO sessions (id) SELECT x FROM n"  # noqa: S608 - our own
_ENDLESS_VIEW = f"CREATE VIEW sessions ({_SESSION}) AS SELECT x, x, x, x, x, x FROM ({_ENDLESS})"  # noqa: S608 - the attack
_PAGE = 512
_INTERIOR = 0x05


@dataclass(frozen=True)
class Planted:
    """One such database.

    Attributes:
        plant: Makes it of the one that an agent has.
        says: Part of why its backup does not prove; empty for one that does no harm, whose backup proves.
    """

    plant: Callable[[Path], None]
    says: str


def _run(*statements: str) -> Callable[[Path], None]:
    def plant(path: Path) -> None:
        held = sqlite3.connect(path, isolation_level=None)
        held.execute("PRAGMA synchronous=OFF")
        for statement in statements:
            held.execute(statement)
        held.close()

    return plant


def _entry(kind: str, name: str, sql: str) -> tuple[str, ...]:
    """Statements that write an entry of the schema as SQLite never would."""
    return (
        "PRAGMA writable_schema=ON",
        f"INSERT INTO sqlite_master VALUES ('{kind}', '{name}', '{name}', 0, '{sql}')",  # noqa: S608 - the attack
    )


def _nested_views(name: str) -> tuple[str, ...]:
    """Views of which each reads the former one twice: its text is short, and what it comes to is not."""
    chain = [
        f"CREATE VIEW v{level} AS SELECT a.id FROM v{level - 1} a, v{level - 1} b"  # noqa: S608 - the attack
        for level in range(1, 31)
    ]
    return ("CREATE VIEW v0 AS SELECT 1 AS id", *chain, f"CREATE VIEW {name} AS SELECT * FROM v30")  # noqa: S608 - the attack


def _circling(path: Path) -> None:
    """A small file whose tables have more rows than there are atoms: each page leads many times to the next one."""
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("PRAGMA journal_mode=DELETE")
    held.execute("PRAGMA synchronous=OFF")
    held.execute(f"PRAGMA page_size={_PAGE}")
    held.execute("VACUUM")
    held.execute(_MANY_MESSAGES)
    (root,) = held.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
    held.close()
    data = bytearray(path.read_bytes())
    below = [n for n in range(2, len(data) // _PAGE + 1) if n != root and data[(n - 1) * _PAGE] == _INTERIOR]
    leaf = struct.unpack_from(">I", data, (below[-1] - 1) * _PAGE + 8)[0]
    chain = [root, *below[:12], leaf]
    for page, child in pairwise(chain):
        start = (page - 1) * _PAGE
        (cells,) = struct.unpack_from(">H", data, start + 3)
        struct.pack_into(">I", data, start + 8, child)
        for cell in struct.unpack_from(f">{cells}H", data, start + 12):
            struct.pack_into(">I", data, start + cell, child)
    path.write_bytes(data)


def _repeated_default(path: Path) -> None:
    _run(
        _MANY_SESSIONS,
        "ALTER TABLE sessions RENAME COLUMN title TO was",
        f"ALTER TABLE sessions ADD COLUMN title TEXT DEFAULT '{'x' * 50_000}'",
    )(path)


def flipped(seed: int) -> Callable[[Path], None]:
    """The agent's own database with bytes changed at random."""

    def plant(path: Path) -> None:
        _run("PRAGMA journal_mode=DELETE")(path)
        data, chance = bytearray(path.read_bytes()), random.Random(seed)  # noqa: S311 - no secret
        for _ in range(chance.choice((1, 8, 200))):
            data[chance.randrange(16, len(data))] = chance.randrange(256)
        path.write_bytes(data)

    return plant


def of_no_text(path: Path) -> None:
    """A database whose schema is damaged so that SQLite's own message about it is no UTF-8."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("CREATE TABLE zzzzzzzz (x)")
        connection.commit()
    data = path.read_bytes()
    assert data.count(b"CREATE TABLE zzzzzzzz") == 1
    path.write_bytes(data.replace(b"CREATE TABLE zzzzzzzz", b"CREXTE TABLE zzzzzzzz").replace(b"zzzzzzzz", b"\xeb" * 8))


def _cut(path: Path) -> None:
    _run("PRAGMA journal_mode=DELETE")(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5000)


DATABASES: Mapping[str, Planted] = {
    "a view that never ends": Planted(
        _run("DROP TABLE sessions", _ENDLESS_VIEW),
        "sessions is no table, but a view",
    ),
    "a view that is called a table": Planted(
        _run("DROP TABLE sessions", *_entry("table", "sessions", "CREATE VIEW sessions AS SELECT 1 AS id")),
        "schema",
    ),
    "a view under another name": Planted(
        _run("DROP TABLE sessions", *_entry("view", "harmless", "CREATE VIEW sessions AS SELECT 1 AS id")),
        "schema",
    ),
    "a view called an index": Planted(
        _run("DROP TABLE sessions", *_entry("index", "sessions", "CREATE/**/VIEW sessions AS SELECT 1 AS id")),
        "schema",
    ),
    "views within views": Planted(
        _run("DROP TABLE sessions", *_nested_views("sessions")), "sessions is no table, but a view"
    ),
    "views within views beside the tables": Planted(_run(*_nested_views("other")), ""),
    "a column of half a gigabyte": Planted(
        _run(
            "DROP TABLE messages",
            "CREATE TABLE messages (id INTEGER PRIMARY KEY)",
            "INSERT INTO messages (id) VALUES (1)",
            "ALTER TABLE messages ADD COLUMN content TEXT AS (hex(zeroblob(250000000)))",
        ),
        "messages has columns that are computed",
    ),
    "a column in whose order rows are to come": Planted(
        _run("ALTER TABLE messages ADD COLUMN RowID TEXT"), "messages has a column rowid"
    ),
    "a long default in every row": Planted(_repeated_default, "sessions holds more than its file"),
    "a virtual table": Planted(
        _run("DROP TABLE sessions", f"CREATE VIRTUAL TABLE sessions USING fts5({_SESSION})"),
        "sessions is no table, but a virtual table",
    ),
    "a damaged virtual table beside the tables": Planted(
        _run(
            "CREATE VIRTUAL TABLE messages_fts USING fts5(content)",
            "INSERT INTO messages_fts VALUES ('word')",
            "UPDATE messages_fts_data SET block = randomblob(5000)",
        ),
        "",
    ),
    "triggers": Planted(
        _run(
            f"CREATE TRIGGER late AFTER INSERT ON messages BEGIN INSERT INTO sessions (id) {_ENDLESS}; END",
            "CREATE TRIGGER early BEFORE UPDATE ON sessions BEGIN SELECT load_extension('/tmp/x'); END",
        ),
        "",
    ),
    "an index that computes": Planted(
        _run(
            "INSERT INTO messages (content) VALUES ('hello')",
            "CREATE INDEX slow ON messages (length(hex(zeroblob(1000000))), content)",
            "CREATE INDEX covering ON sessions (id, source, user_id, parent_session_id, started_at, title)",
        ),
        "",
    ),
    "thousands of tables": Planted(
        _run("BEGIN", *(f"CREATE TABLE t{number} (a)" for number in range(2500)), "COMMIT"),
        "its schema has more than 2000 entries",
    ),
    "pages that lead in circles": Planted(_circling, "messages holds more than its file"),
    "its end cut off": Planted(_cut, "malformed"),
}
"""By what was done to it."""
