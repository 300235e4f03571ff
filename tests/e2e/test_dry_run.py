"""``--dry-run`` says what a change would do, and neither registry nor vendor nor machine is touched."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

from tests.support.real.commands.command import local_world

ASKED = ("--reason", "test")
CHANGES: tuple[tuple[str, ...], ...] = (
    ("instance", "resize", "ada", "--plan", "heavy"),
    ("instance", "move", "ada", "--region", "nbg1"),
    ("instance", "suspend", "ada", "--machine", "removed"),
    ("instance", "terminate", "ada"),
    ("instance", "terminate", "ada", "--now", "--without-backup"),
    ("backup", "restore", "ada"),
    ("backup", "restore", "ada", "--onto-new-machine"),
    ("provision", "ben", "--plan", "heavy"),
    ("provision", "ada", "--plan", "light"),
    ("instance", "settings", "ada", "--set", "disabled_tools=browser"),
)

CHANGED: tuple[tuple[str, ...], ...] = (
    ("provision", "ben", "--plan", "heavy"),
    ("backup", "restore", "ada", "--yes"),
    ("instance", "settings", "ada", "--set", "disabled_tools=browser", *ASKED),
    ("instance", "resize", "ada", "--plan", "heavy", *ASKED),
    ("instance", "suspend", "ada", *ASKED),
    ("instance", "resume", "ada", *ASKED),
)


def touched(home: Path) -> dict[str, str]:
    """Digests of registry, vendor, machines and stacks of a world, by file."""
    digests = {}
    for file in sorted(path for path in home.rglob("*") if path.is_file() and "registry-copies" not in path.parts):
        if file.suffix == ".db":
            with sqlite3.connect(file) as connection:
                content = "\n".join(connection.iterdump()).encode()
        elif file.suffix in {".db-wal", ".db-shm", ".log", ".jsonl"}:
            continue
        else:
            content = file.read_bytes()
        digests[str(file.relative_to(home))] = hashlib.sha256(content).hexdigest()
    return digests


def steps_of_last(home: Path) -> list[str]:
    """The steps of the operation that was opened last, without those that wait."""
    [registry] = home.glob("*/registry.db")
    query = (
        "SELECT step FROM operation_steps WHERE operation_id = (SELECT id FROM operations ORDER BY created_at DESC) "
        "AND step NOT LIKE 'waiting for%' ORDER BY id"
    )
    with sqlite3.connect(registry) as connection:
        return [step for (step,) in connection.execute(query)]


@pytest.mark.turns(25)
async def test_a_dry_run_touches_nothing_and_expects_the_steps_that_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with local_world(home, driver="sim") as world:
        await world.ok("provision", "ada", "--plan", "light")
        await world.ok("backup", "create", "ada")
        for change in CHANGES:
            before = touched(home)
            preview = (await world.ok(*change, "--dry-run", "--json")).json
            assert preview["kind"] == "change-preview"
            after = touched(home)
            assert {name for name in before | after if before.get(name) != after.get(name)} == set(), change
        assert (await world.ok("instance", "resume", "ada", "--dry-run", *ASKED)).stdout.startswith("nothing to do")
        refused = await world.run("provision", "ada", "--plan", "heavy", "--dry-run")
        assert refused.stderr == (await world.run("provision", "ada", "--plan", "heavy")).stderr

        for change in CHANGED:
            planned = [step["name"] for step in (await world.ok(*change, "--dry-run", "--json")).json["steps"]]
            await world.ok(*change)
            steps = steps_of_last(home)
            assert len(planned) == len(steps), (change, planned, steps)
