"""The audit and the registry's copies by the installed command: read, rewritten, damaged, lost, put back."""

import sqlite3
from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.settings.environment import Environment
from tests.support.real.commands.command import Command


@pytest.fixture
async def ops(tmp_path: Path) -> Command:
    """An environment whose registry was written to twice."""
    command = Command(tmp_path / "home")
    registry = Container(Environment.load("local", command.environ), lambda _: None).registry
    registry.audit.append("command_run", "instance/1", why="first")
    registry.close()
    await command.ok("registry", "restore", "--already-restored", "--reason", "second")
    return command


def _file(ops: Command) -> Path:
    return ops.home / "local" / "registry.db"


async def test_the_audit_is_read_and_whole(ops: Command) -> None:
    log = (await ops.ok("audit", "log", "--json", "--since", "1h")).json
    assert [(entry["id"], entry["action"], entry["why"]) for entry in log["entries"]] == [
        (2, "epoch_opened", "second"),
        (1, "command_run", "first"),
    ]
    assert (await ops.ok("audit", "log", "--who", "nobody", "--json")).json["entries"] == []
    newest = await ops.ok("audit", "log", "--limit", "1")
    assert ("second" in newest.stdout, "first" in newest.stdout) == (True, False)
    assert "the newest 1 are shown; --limit shows more" in newest.stderr
    audit_verify = (await ops.ok("audit", "verify", "--json")).json
    assert (audit_verify["entries"], audit_verify["epoch"], audit_verify["anchored_to"]) == (2, 2, 2)
    wrong = await ops.run("audit", "log", "--since", "yesterday")
    assert (wrong.exit_code, "'yesterday' is not a time" in wrong.stderr) == (2, True)


async def test_one_edited_byte_ends_with_its_row(ops: Command) -> None:
    with sqlite3.connect(_file(ops)) as connection:
        [(trigger,)] = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'audit_refuses_update'")
        connection.execute("DROP TRIGGER audit_refuses_update")
        connection.execute("UPDATE audit SET why = 'firsu' WHERE id = 1")
        connection.execute(trigger)
    connection.close()
    ran = await ops.run("audit", "verify")
    assert ran.exit_code == 70, str(ran)
    assert "audit entry 1 was changed" in ran.stderr
    (ops.home / "local" / "audit.anchor").unlink()
    ran = await ops.run("audit", "verify")
    assert ran.exit_code == 70, "an edited entry shows without any anchor"


async def test_an_audit_without_an_anchor_is_not_called_verified(ops: Command) -> None:
    (ops.home / "local" / "audit.anchor").unlink()
    ran = await ops.run("audit", "verify")
    assert (ran.exit_code, "audit.anchor anchors none of them" in ran.stderr) == (3, True), str(ran)


async def test_a_damaged_registry_is_put_back_by_what_the_error_says(ops: Command) -> None:
    junk = b"rubbish " * 1000
    _file(ops).write_bytes(junk)
    damaged = await ops.run("instance", "list")
    assert damaged.exit_code == 70, str(damaged)
    assert "hermesops registry restore --latest" in damaged.stderr
    [copy] = (await ops.ok("registry", "copies", "--json")).json["copies"]
    assert copy["reason"] == "hourly"
    unasked = await ops.run("registry", "restore", "--latest")
    assert unasked.exit_code == 3, str(unasked)
    assert _file(ops).read_bytes() == junk
    done = (await ops.ok("registry", "restore", "--latest", "--yes", "--json")).json
    assert done["epoch"] == 3, "above the two there were, though the copy knows of one"
    [aside] = _file(ops).parent.glob("registry.db.damaged-*")
    assert (str(aside), aside.read_bytes()) == (done["set_aside"], junk)
    await ops.ok("instance", "list")
    await ops.ok("audit", "verify")
    again = await ops.run("registry", "restore", "--latest", "--yes")
    assert (again.exit_code, "is intact" in again.stderr) == (3, True), str(again)


async def test_a_registry_that_is_gone_is_not_begun_anew(ops: Command) -> None:
    for left in _file(ops).parent.glob("registry.db*"):
        left.unlink()
    gone = await ops.run("instance", "list")
    assert gone.exit_code == 70, str(gone)
    assert "is missing, although there was one" in gone.stderr
    assert not _file(ops).exists()
    await ops.ok("registry", "restore", "--latest", "--yes")
    await ops.ok("instance", "list")


async def test_an_older_hermesops_leaves_a_newer_registry_alone(ops: Command) -> None:
    with sqlite3.connect(_file(ops)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    ran = await ops.run("instance", "list")
    assert (ran.exit_code, "an older hermesops" in ran.stderr) == (3, True), str(ran)
