"""Each step that moves or puts back rows of the registry verifies its audit against the anchor; none makes it clean."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import RefusedError
from hermesops.model.operation import OperationKind
from hermesops.platform.connection.connect import PlatformConnection
from hermesops.platform.connection.registry_move import RegistryMove
from hermesops.platform.connection.settings import PlatformFiles
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.hash_chain import link
from hermesops.store.registry.open import migrate_registry
from hermesops.vendor.channel import Completed
from tests.support.fakes.credentials import authority_in
from tests.support.fakes.parts import part
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import placed


def environment(home: Path, **variables: str) -> Environment:
    given = {f"HERMESOPS_{name}": value for name, value in variables.items()}
    return Environment.load("local", {"HOME": str(home), "HERMESOPS_HOME": str(home), **given})


def place_of(home: Path, **variables: str) -> RegistryPlace:
    return RegistryPlace(environment(home, **variables), lambda *_, **__: None)


def forge(file: Path) -> None:
    """Edit an entry, as somebody does who may write the file."""
    with sqlite3.connect(file) as database:
        database.execute("DROP TRIGGER audit_refuses_update")
        database.execute("UPDATE audit SET why = 'nothing happened' WHERE id = 1")


def forge_all(file: Path) -> None:
    """Edit an entry and compute the chain anew: triggers are there, and every entry follows the one before."""
    registry = RegistryPlace(environment(file.parents[1]), lambda *_, **__: None).open()
    entries = sorted(registry.audit.list(), key=lambda entry: entry.id)
    registry.close()
    with sqlite3.connect(file) as database:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'"
        triggers = database.execute(query).fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        previous = ""
        for entry in entries:
            linked = link(replace(entry, why=f"not: {entry.why}"), previous)
            values = (linked.why, linked.previous, linked.hash, linked.id)
            database.execute("UPDATE audit SET why = ?, previous = ?, hash = ? WHERE id = ?", values)
            previous = linked.hash
        for _, sql in triggers:
            database.execute(sql)


class Moving:
    """An environment of this computer, and the database of its platform."""

    def __init__(self, home: Path, server: postgresql.PostgreSql) -> None:
        self.home, self.folder = home, home / "local"
        self.url = server.new_database()
        migrate_registry(self.url)
        registry = self.place.open()
        placed(registry)
        registry.close()
        self.commands: list[str] = []

    @property
    def place(self) -> RegistryPlace:
        return place_of(self.home)

    @property
    def file(self) -> Path:
        return self.folder / "registry.db"

    def connection(self, url: str = "") -> PlatformConnection:
        channel: Any = part(run=self._run)
        place = self.place
        env = environment(self.home)
        return PlatformConnection(
            env=env,
            wanted={"registry.url": url or self.url},
            channel=channel,
            load_authority=lambda: authority_in(self.home),
            authorities=lambda: "their certificates\n",
            registry=RegistryMove(
                source_url=f"sqlite:///{self.file}",
                target_url=url or self.url,
                open_target=place.open_at,
                anchor_at=place.anchor_at,
                report=lambda _: None,
            ),
            copies=list,
            door=self.folder / "users-door.json",
            report=lambda _: None,
        )

    async def _run(self, command: str, **_: object) -> Completed:
        self.commands.append(command)
        return Completed(0, b"[default]\nkey\n", b"")

    def opened(self) -> Registry:
        """The registry that counts, as any command opens it."""
        return self.place.open()


@pytest.fixture
def moving(tmp_path: Path, postgresql_server: postgresql.PostgreSql) -> Moving:
    return Moving(tmp_path, postgresql_server)


@pytest.mark.postgres
async def test_connecting_says_what_it_verified_and_the_heads_of_before_go_on_to_bind_it(moving: Moving) -> None:
    before = list(moving.place.anchor.heads())
    done = await moving.connection().connect()

    assert "audit entries were verified, up to" in done.audit
    assert set(before) <= set(moving.place.anchor.heads())
    assert moving.place.anchor.path.name != "audit.anchor"
    registry = moving.opened()
    assert (registry.audit.check().doubt, registry.epochs.now()) == ("", 2)
    registry.close()


@pytest.mark.postgres
async def test_a_broken_audit_is_not_connected_and_nothing_is_touched(moving: Moving) -> None:
    def lose(_: Path) -> None:
        moving.place.anchor.path.unlink()

    for breaks, words in (
        (forge_all, "has another hash than the one anchored"),
        (lose, r"no head of its \d+ entries is stored"),
        (forge, "the triggers that refuse changes are gone"),
    ):
        breaks(moving.file)
        with pytest.raises(RefusedError, match=rf"audit of the registry .* is broken: .*{words}") as refused:
            await moving.connection().connect()
        assert "--broken-audit WHY" in str(refused.value.hint), words
        assert not any("systemctl" in command for command in moving.commands), words
        assert not PlatformFiles(environment(moving.home)).before.exists(), words


@pytest.mark.postgres
async def test_a_break_that_is_carried_over_stays_one_and_is_noted(moving: Moving) -> None:
    for lose in (False, True):
        forge_all(moving.file)
        for anchor in moving.folder.glob("audit*.anchor") if lose else ():
            anchor.unlink()
        doubt = moving.place.open_at(f"sqlite:///{moving.file}").audit.check().doubt
        done = await moving.connection().connect(despite="looked at by ada")
        assert done.audit == f"the audit is broken: {doubt}", lose
        registry = moving.opened()
        noted = next(entry for entry in registry.audit.list() if entry.action == "broken_audit_carried_over")
        assert (noted.why, noted.after["first"]) == ("looked at by ada", doubt), lose
        assert bool(registry.audit.check().findings) != lose
        registry.close()
        await moving.connection().undo(despite="the same")


@pytest.mark.postgres
async def test_undoing_takes_settings_and_registry_back_and_what_is_missed_is_counted(moving: Moving) -> None:
    settings = moving.folder / "settings.toml"
    settings.write_text("# mine\ngrace_days = 3\n")
    await moving.connection().connect()
    moved = moving.opened()
    placed(moved, "bea")
    moved.close()

    done = await moving.connection().undo()

    assert settings.read_text() == "# mine\ngrace_days = 3\n"
    registry = moving.opened()
    assert [user.alias for user in registry.users.list()] == ["ada"]
    assert registry.epochs.now() == done.epoch == 3
    report = registry.audit.check()
    assert (report.doubt, report.lost > 0) == ("", True), "what was written on the platform is missed"
    assert "are lost: they were not restored" in done.audit
    placed(registry, "carol")
    registry.close()
    again = await moving.connection().connect()
    assert again.epoch > done.epoch


@pytest.mark.postgres
async def test_undoing_refuses_what_nobody_would_finish_and_a_file_that_was_edited(moving: Moving) -> None:
    await moving.connection().connect()
    moved = moving.opened()
    operation = moved.operations.open(OperationKind.STACK_UP, "cell/cell1", intent={})
    with pytest.raises(RefusedError, match=operation.id):
        await moving.connection().undo()
    moved.close()
    assert PlatformFiles(environment(moving.home)).before.exists(), "it is connected as before"

    forge(moving.file)
    with pytest.raises(RefusedError, match="is broken"):
        await moving.connection().undo()
    assert PlatformFiles(environment(moving.home)).before.exists()


@pytest.mark.postgres
async def test_undoing_works_where_the_platforms_database_is_gone(moving: Moving) -> None:
    await moving.connection().connect()
    gone = "postgresql://hermesops@127.0.0.1:1/gone?connect_timeout=1"
    done = await moving.connection(gone).undo()
    assert done.epoch >= 2
    registry = moving.opened()
    assert registry.audit.check().doubt == ""
    registry.close()
    with pytest.raises(RefusedError, match="is not connected"):
        await moving.connection().undo()


def test_a_copy_that_was_edited_is_told_when_it_is_restored(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    registry = place.open()
    registry.audit.append("command_run", "instance/1", why="t")
    registry.close()
    copy = place.copies.take("daily").file
    assert place.restore(copy, over="local", why="t").audit.doubt == ""
    assert place.file
    forge_all(place.file)
    forged = place.copies.take("forged").file
    done = place.restore(forged, over="local", why="t")
    assert "the chain was recomputed" in done.audit.doubt
    assert done.audit.told.startswith("the audit is broken: entry ")
    reopened = place.open()
    assert reopened.audit.check().doubt, "and it stays so"
    reopened.close()


def test_a_copy_from_before_a_rebuilt_registry_is_no_break(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    registry = place.open()
    registry.audit.append("command_run", "instance/1", why="t")
    registry.close()
    copy = place.copies.take("daily").file
    kept = tmp_path / "kept.db"
    copy.replace(kept)
    assert place.file
    place.file.unlink()
    for listed_copy in place.copies.list():
        listed_copy.file.unlink()
    rebuilt = place.open_anew("the registry was lost", above=1000)
    rebuilt.audit.append("command_run", "instance/2", why="t")
    report = rebuilt.audit.check()
    assert (report.doubt, report.lost > 0) == ("", True), "the lost registry's entries are counted"
    rebuilt.close()

    done = place.restore(kept, over="local", why="t")

    assert done.audit.doubt == ""
    assert done.audit.lost > 0, "the rebuilt registry's entries are counted"


@pytest.mark.postgres
def test_a_database_that_was_restored_to_a_moment_is_verified(moving: Moving) -> None:
    place = place_of(moving.home, REGISTRY_URL=moving.url)
    registry = place.open()
    registry.audit.append("command_run", "instance/1", why="t")
    assert place.record_restored("a moment").audit.doubt == ""
    with registry._database._engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE audit DISABLE TRIGGER USER")
        connection.exec_driver_sql("UPDATE audit SET why = 'another' WHERE id = 1")
        connection.exec_driver_sql("ALTER TABLE audit ENABLE TRIGGER USER")
    registry.close()
    done = place.record_restored("another moment")
    assert done.epoch == 3
    assert done.audit.told.startswith("the audit is broken: entry 1 was changed")
