"""Registries for tests: either database, a key in memory, a clock that a test turns."""

import os
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.base.files.private_file import make_private_folder
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry, open_registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.maintenance.backup import Copies
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.schema import schema_version

CELL = CellName("cell1")
RING = Ring("k1", {"k1": bytes(range(32))})
KEYS = KeyRing(RING.current, RING.keys)


class TurnedClock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.timestamp = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.timestamp

    def turn(self, seconds: float) -> None:
        """Let time pass."""
        self.timestamp += timedelta(seconds=seconds)


def registry_at(
    url: str,
    *,
    clock: TurnedClock | None = None,
    keys: KeyRing = KEYS,
    anchor: Anchor | None = None,
    copies: Copies | None = None,
) -> Registry:
    """Open (and make) the registry at ``url``: a new file is a copy of one with the tables of this revision."""
    if not anchor and not copies:
        _copy_to(url)
    migrate_registry(url, anchor=anchor, copies=copies)
    return open_registry(
        url,
        environment="local",
        actor="tester",
        sealer=lambda _new: keys,
        clock=clock,
        anchor=anchor,
        copies=copies,
    )


def _copy_to(url: str) -> None:
    """Make the file of an SQLite registry, unless it is there: a copy takes a quarter of the time."""
    scheme, _, name = url.partition("sqlite:///")
    if scheme or not name or Path(name).exists():
        return
    file = Path(name)
    make_private_folder(file.parent)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".registry-") as draft:
        draft.write(_empty(tuple(schema_version.REVISIONS)))
        draft.flush()
        with suppress(FileExistsError):  # another process or thread was faster
            os.link(draft.name, file)


@cache
def _empty(revisions: tuple[str, ...]) -> bytes:
    """An SQLite registry of the last of these revisions, which holds nothing."""
    assert revisions
    with tempfile.TemporaryDirectory() as folder:
        migrate_registry(f"sqlite:///{folder}/registry.db")
        return Path(folder, "registry.db").read_bytes()


def placed(registry: Registry, alias: str = "ada", plan: Plan = Plan.LIGHT, *, cell: CellName = CELL) -> Instance:
    """The user's instance, made in that cell unless there is one."""
    return registry.placements.place(
        registry.users.resolve(alias, create=True),
        plan=plan,
        server_type="starter",
        image_id=None,
        choose=lambda _cells: Placement(cell, "hel1", only_plan=None),
    )
