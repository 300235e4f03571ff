"""What an audited write of the registry costs: its chain, its anchor, and how hard it is pressed onto the disk.

Beside it the same write without anchor, and with SQLite's other ways of keeping a journal. On PostgreSQL the server
runs without fsync, as in tests: the figure is the lock's and the round trips'.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from tests.bench.figures import Board, seconds_of
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at

WRITES = 300
ENTRIES = 20_000
_JOURNALS = {
    "WAL, synchronous FULL (ours)": (),
    "WAL, synchronous NORMAL (may lose the last commits)": ("PRAGMA synchronous = NORMAL",),
    "DELETE, synchronous FULL": ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = FULL"),
}


def measure(board: Board) -> None:
    """Add the figures."""
    with tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name:
        folder = Path(name)
        bare = _beside(folder)
        for number, (title, pragmas) in enumerate(_JOURNALS.items()):
            with _opened(f"sqlite:///{folder}/{number}.db", None) as registry:
                _set(registry, pragmas)
                took = _write(registry, WRITES)
            board.add(f"  a write, SQLite {title}", _each(took))
        with _opened(f"sqlite:///{folder}/anchored.db", Anchor(folder / "anchor")) as registry:
            board.add("an audited write, SQLite, anchored", _each(_write(registry, WRITES)), against=bare)
            _fill(registry)
            board.add(f"audit verify, {ENTRIES} entries", f"{seconds_of(registry.audit.check):.2f} s")
    if postgresql.programs():
        with (
            tempfile.TemporaryDirectory(prefix="hermesops-bench-") as name,
            postgresql.running() as server,
            _opened(server.new_database(), Anchor(Path(name) / "anchor")) as registry,
        ):
            board.add("an audited write, PostgreSQL, anchored", _each(_write(registry, WRITES)), against=bare)


def _beside(folder: Path) -> str:
    """The same database's smallest write, without entry, chain and anchor."""
    with _opened(f"sqlite:///{folder}/bare.db", None) as registry:
        registry.leases.take("x", "bench")
        took = seconds_of(lambda: _touch(registry, WRITES))
    return f"a write without an entry, SQLite: {_each(took)}"


def _touch(registry: Registry, count: int) -> None:
    for _ in range(count):
        with registry._database.writing() as connection:
            connection.execute(sa.text("UPDATE leases SET counter = counter + 1"))


@contextmanager
def _opened(url: str, anchor: Anchor | None) -> Iterator[Registry]:
    registry = registry_at(url, anchor=anchor)
    try:
        yield registry
    finally:
        registry.close()


def _set(registry: Registry, pragmas: tuple[str, ...]) -> None:
    with registry._database._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        for pragma in pragmas:
            raw.cursor().execute(pragma).close()


def _write(registry: Registry, count: int) -> float:
    def write() -> None:
        for _ in range(count):
            registry.audit.append("noted", "bench", why="")

    return seconds_of(write)


def _fill(registry: Registry) -> None:
    """Many entries, fast: one transaction and one anchor a thousand."""
    for _ in range((ENTRIES - WRITES) // 1000 + 1):
        with registry._database.writing() as connection:
            for number in range(1000):
                registry.audit._note(connection, "noted", f"bench/{number}", after={"status": "running"})


def _each(seconds: float) -> str:
    return f"{seconds / WRITES * 1000:.2f} ms"
