"""Which machines a copy of the registry does not know, of those that the vendor has."""

import sqlite3
from contextlib import closing
from pathlib import Path

from hermesops.agents.backup.registry_copies import unknown_to
from hermesops.store.registry.maintenance.backup import CopyContent, content_of
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fleets.in_memory import machine_for, ordered, recovered
from tests.support.real.stores.registries import registry_at


def test_only_living_machines_of_the_environment_that_it_lacks_count() -> None:
    machines = [
        machine_for(ordered(0)),
        machine_for(ordered(1)),
        machine_for(ordered(2), status=MachineStatus.DELETED),
        machine_for(ordered(3), name="hermes-other-cell1-000000000000"),
    ]
    assert unknown_to(CopyContent(1, frozenset({"m-0"})), machines, "local") == (machines[1].name,)


def test_the_content_of_a_copy_is_read_from_the_file_alone(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    for number in range(2):
        registry.recovery.recover_instance(recovered(number), why="t")
    registry.terminations.terminate(recovered(1).id)
    registry.close()
    copy_content = content_of(tmp_path / "registry.db")
    assert copy_content.instances == 1
    assert "m-0" in copy_content.machines
    with closing(sqlite3.connect(tmp_path / "older.db")) as older:
        older.execute("CREATE TABLE meta (name TEXT)")
    assert content_of(tmp_path / "older.db") == CopyContent(0, frozenset())
