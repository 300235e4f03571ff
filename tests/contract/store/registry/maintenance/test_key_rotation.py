"""The registry's key is rotated while others write, on either database, and killed at each of its writes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.access.secrets.keyring.rotation import KeyRotation
from hermesops.base.files.private_file import make_secret, read_secret, replace_secret
from hermesops.base.waiting import pause_blocking
from hermesops.errors import RefusedError
from hermesops.model.access.token import ProxyToken
from hermesops.model.ids import MachineId
from hermesops.model.recovery.backup import Credential
from hermesops.store.registry import Registry
from hermesops.store.registry.encryption.sealing import SEALING_KEY, sealed_cells, sealed_columns, stop_sealing
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema import tables
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.registry import FakeRegistry
from tests.support.real.stores.registries import placed, registry_at

LATER = datetime(2027, 1, 1, tzinfo=UTC)
MACHINE = MachineId("m-1")
USERS = ("ada", "bob", "eve")
SOON_S = 30.0


class MortalRegistry(FakeRegistry):
    """The registry, whose writes are counted; two values are sealed anew at a time."""

    def __init__(self, registry: Registry, death: Death) -> None:
        self.sealing_key = registry.sealing.key
        self.sealing_count_otherwise = registry.sealing.count_otherwise
        self.sealing_use = death.around(registry.sealing.use)
        self.sealing_reseal = death.around(partial(registry.sealing.reseal, limit=1))
        self.sealing_record_resealed = death.around(registry.sealing.record_resealed)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "registry.key"
    make_secret(path, Ring.fresh().to_text())
    return path


@pytest.fixture
def registry(registry_url: str, file: Path) -> Iterator[Registry]:
    opened = registry_at(registry_url, keys=KeyRing.load(file))
    for alias in USERS:
        fill(opened, alias)
    yield opened
    opened.close()


def fill(registry: Registry, alias: str) -> None:
    instance = placed(registry, alias)
    registry.instances.set_machine(instance.id, MachineId(f"m-{alias}"))
    registry.backups.make_repository(instance.id, f"password of {alias}")
    registry.backups.keep_credential(instance.id, Credential("access", f"secret of {alias}"), why="test")
    registry.connections.connect(instance.id, "calendar", access_token=f"token of {alias}", refresh_token="again")
    keep(registry, alias, f"proxy of {alias}")


def keep(registry: Registry, alias: str, text: str) -> None:
    token = ProxyToken("t-1", MachineId(f"m-{alias}"), "platform", LATER, text)
    registry.proxy_tokens.keep(token)


def known(registry: Registry) -> list[str]:
    """Every secret, in clear."""
    with registry._database.reading() as connection:
        cells = list(sealed_cells(connection))
    return sorted(f"{cell.place} {registry._context.sealer.unseal(cell.sealed, place=cell.place)}" for cell in cells)


def rotation(
    registry: Registry, file: Path, *, death: Death | None = None, needed_since: datetime | None = None
) -> KeyRotation:
    write: Callable[[str], None] = partial(replace_secret, file)
    return KeyRotation(
        registry,
        lambda: read_secret(file, what="key"),
        death.around(write) if death else write,
        source=str(file),
        now=lambda: LATER,
        needed_since=lambda: needed_since,
        report=lambda _line: None,
    )


def ring_in(file: Path) -> Ring:
    return Ring.parse(file.read_text())


def test_every_secret_opens_after_a_rotation_and_the_old_key_is_dropped(registry: Registry, file: Path) -> None:
    before, old = known(registry), ring_in(file).current
    key = rotation(registry, file).run(why="yearly")
    assert key != old
    assert set(ring_in(file).keys) == {key}
    assert known(registry) == before
    assert registry.sealing.count_otherwise() == 0
    audited = [entry for entry in registry.audit.list(subject="registry/key") if entry.why == "yearly"]
    assert [entry.action for entry in audited] == ["registry_key_rotated", "registry_key_changed"]


def test_a_key_is_kept_while_a_copy_of_the_registry_may_need_it(registry: Registry, file: Path) -> None:
    old = ring_in(file).current
    key = rotation(registry, file, needed_since=LATER - timedelta(days=3)).run(why="one")
    assert set(ring_in(file).keys) == {key, old}
    assert set(ring_in(file).retired) == {old}
    newest = rotation(registry, file, needed_since=LATER + timedelta(days=1)).run(why="two")
    assert set(ring_in(file).keys) == {newest}, "the oldest copy is younger than both rotations"


def test_who_opened_before_goes_on_reading_and_writing(registry: Registry, file: Path, registry_url: str) -> None:
    other = registry_at(registry_url, keys=KeyRing.load(file))
    old = ring_in(file).current
    key = rotation(registry, file).run(why="test")
    keep(other, "ada", "written by who knew only the old key")
    assert known(other) == known(registry)
    with registry._database.reading() as connection:
        assert not [cell for cell in sealed_cells(connection) if cell.sealed.startswith(f"hs1.{old}.")]
        assert all(cell.sealed.startswith(f"hs1.{key}.") for cell in sealed_cells(connection))
    other.close()


@pytest.mark.postgres
@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
def test_a_change_waits_for_who_is_sealing(registry: Registry, file: Path, registry_url: str) -> None:
    """What is sealed with the old key commits before the change; SQLite lets one write at a time anyway."""
    other = registry_at(registry_url, keys=KeyRing.load(file))
    old, key = registry.sealing.key(), rotation(registry, file).prepare()
    with ThreadPoolExecutor(1) as threads:
        with registry._database.writing() as connection:
            assert registry.audit._seal_in(connection, "x", "a/b/c").startswith(f"hs1.{old}.")
            changing = threads.submit(other.sealing.use, key, why="test")
            await_waiting(registry, changing)
            assert registry.sealing.key() == old
            assert registry.audit._seal_in(connection, "y", "a/b/d").startswith(f"hs1.{old}.")
        changing.result(timeout=SOON_S)
    assert registry.sealing.key() == key
    other.close()


@pytest.mark.postgres
@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
def test_whoever_seals_during_a_change_waits_for_it_and_seals_with_the_new_key(
    registry: Registry, file: Path, registry_url: str
) -> None:
    other = registry_at(registry_url, keys=KeyRing.load(file))
    key = rotation(registry, file).prepare()

    def seal() -> str:
        with other._database.writing() as connection:
            return other.audit._seal_in(connection, "x", "a/b/c")

    with ThreadPoolExecutor(1) as threads:
        with registry._database.writing() as connection:
            stop_sealing(registry._database, connection)
            insert_or_update(connection, tables.meta, {"name": SEALING_KEY, "value": key})
            sealing = threads.submit(seal)
            await_waiting(registry, sealing)
        assert sealing.result(timeout=SOON_S).startswith(f"hs1.{key}.")
    other.close()


def await_waiting(registry: Registry, other: Future[Any]) -> None:
    """Return once somebody waits for an advisory lock of this database.

    Raises:
        AssertionError: The other ended without having waited.
    """
    waits = sa.text(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database"
        " WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
    )
    for _ in range(int(SOON_S / 0.01)):
        with registry._database.reading() as connection:
            if connection.execute(waits).scalar():
                return
        assert not other.done(), "it did not wait for who was before it"
        pause_blocking(0.01)
    raise AssertionError(f"nobody waits after {SOON_S} s")


@pytest.mark.turns(13)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rotation_that_is_killed_anywhere_is_ended_by_the_same_command(
    registry: Registry, file: Path, registry_url: str, when: str
) -> None:
    writer = registry_at(registry_url, keys=KeyRing.load(file))
    before = known(registry)
    at, lives = 0, 0
    while True:
        at += 1
        death = Death.before(at) if when == "before" else Death.after(at)
        started = ring_in(file).current
        try:
            rotation(MortalRegistry(registry, death), file, death=death).run(why="test")
        except KilledError:
            lives += 1
        else:
            break
        assert known(writer) == before, f"killed at write {at}"
        keep(writer, "ada", "proxy of ada")
        reopened = registry_at(registry_url, keys=KeyRing.load(file))
        assert known(reopened) == before
        rotation(reopened, file).run(why="again")
        assert known(reopened) == before
        assert len(ring_in(file).keys) == 1
        assert ring_in(file).current != started
        reopened.close()
    assert lives >= 7, "added, changed, sealed anew three times, noted, settled"
    writer.close()


def test_another_computer_without_the_new_key_is_told_to_copy_it(
    registry: Registry, file: Path, registry_url: str, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.key"
    make_secret(theirs, file.read_text())
    other = registry_at(registry_url, keys=KeyRing.load(theirs))
    rotation(registry, file).run(why="test")
    with pytest.raises(RefusedError, match=r"not in .*theirs\.key"):
        keep(other, "ada", "x")
    with pytest.raises(RefusedError, match=r"not in .*theirs\.key"):
        registry_at(registry_url, keys=KeyRing.load(theirs))
    replace_secret(theirs, file.read_text())
    keep(other, "ada", "proxy of ada")
    other.close()


def test_a_prepared_key_that_all_computers_have_disturbs_nobody(
    registry: Registry, file: Path, registry_url: str, tmp_path: Path
) -> None:
    other_file = tmp_path / "theirs.key"
    other = registry_at(registry_url, keys=KeyRing.load(file))
    prepared = rotation(registry, file).prepare()
    assert rotation(registry, file).prepare() == prepared
    make_secret(other_file, file.read_text())
    theirs = registry_at(registry_url, keys=KeyRing.load(other_file))
    assert rotation(registry, file).run(why="test") == prepared
    keep(theirs, "bob", "still writing")
    assert known(theirs) == known(registry)
    other.close()
    theirs.close()


def test_a_copy_from_before_is_brought_to_the_newest_key(registry: Registry, file: Path) -> None:
    old = ring_in(file).current
    key = rotation(registry, file, needed_since=LATER - timedelta(days=3)).run(why="test")
    registry.sealing.use(old, why="as if a copy from before were put back")
    while registry.sealing.reseal():
        pass
    again = rotation(registry, file, needed_since=LATER - timedelta(days=3)).run(why="test")
    assert again not in {old, key}
    assert registry.sealing.key() == again
    assert registry.sealing.count_otherwise() == 0


def test_nothing_sealed_stands_in_a_column_that_is_not_marked(registry: Registry) -> None:
    marked = {(column.table.name, column.name) for column in sealed_columns()} | {("meta", "value")}
    with registry._database.reading() as connection:
        for table in tables.metadata.sorted_tables:
            for row in connection.execute(sa.select(table)).mappings():
                sealed = {name for name, value in row.items() if isinstance(value, str) and value.startswith("hs1.")}
                assert {(table.name, name) for name in sealed} <= marked
