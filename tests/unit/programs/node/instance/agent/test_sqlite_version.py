"""hermes-node tells which SQLite a gateway has mapped, and believes no name alone."""

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.machines.release.blobs import blob_of
from hermesops.programs.node.instance.agent import sqlite_version
from hermesops.programs.node.system import mapped_files
from hermesops.programs.node.system.sqlite_library import libraries, load
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.fakes.machines.node_system import FakeSystem

RELEASE = "0.19.0-0123456789ab"
NAME = "libsqlite3-3.53.4-x86_64.so"


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    return make(tmp_path)


def library_of(machine: NodeHome, release: str = RELEASE, content: bytes = b"library") -> Path:
    """The library in a slot whose lock names its bytes."""
    slot = machine.layout.releases / release
    place = slot / "venv/lib/python3.11/site-packages" / NAME
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    blob = blob_of(NAME, b"library")
    lock = {"site": [{"name": blob.name, "sha256": blob.sha256, "size": blob.size}]}
    (slot / "release.json").write_text(json.dumps({"id": release, "lock": json.dumps(lock)}))
    return place


class Running(FakeSystem):
    """Runs a gateway as process 7."""

    def shown(self) -> str:
        return "ActiveState=active\nMainPID=7\n"


def shown(machine: NodeHome, *paths: str) -> tuple[str, str]:
    """Path and version of a gateway that has mapped these; hermes-node itself has the distribution's."""
    maps = {7: frozenset(paths)}
    own = frozenset({"/usr/lib/libsqlite3.so.0.8.6"})
    node = replace(machine.node, system=Running())
    answer = sqlite_version.show(node, lambda pid, _: maps.get(pid, own), lambda _: "3.53.4")
    assert answer["node"] == "3.53.4"
    return answer["path"], answer["version"]


def test_a_slots_library_is_known_by_its_bytes(machine: NodeHome) -> None:
    signed = str(library_of(machine))
    assert shown(machine, signed) == (signed, "3.53.4")
    changed = str(library_of(machine, "0.19.0-ba9876543210", b"another"))
    assert shown(machine, changed) == (changed, "")
    elsewhere = f"/var/lib/hermes/{NAME}"
    assert shown(machine, elsewhere) == (elsewhere, "")
    assert shown(machine, f"{signed} (deleted)") == (f"{signed} (deleted)", "")


def test_the_distributions_is_told_by_its_own_version_and_two_at_once_by_none(machine: NodeHome) -> None:
    system = "/usr/lib/libsqlite3.so.0.8.6"
    assert shown(machine, system) == (system, sqlite3.sqlite_version)
    assert shown(machine, "/opt/libsqlite3.so.0") == ("/opt/libsqlite3.so.0", "")
    assert shown(machine, system, "/opt/libsqlite3.so.0") == (f"/opt/libsqlite3.so.0, {system}", "")
    assert shown(machine) == ("", "")


def test_a_sqlite_that_is_linked_into_a_slots_python_is_named_by_the_signed_lock(machine: NodeHome) -> None:
    slot = machine.layout.releases / RELEASE
    program = slot / "python/bin/python3.14"
    program.parent.mkdir(parents=True)
    interpreter = {"version": "3.14.0", "archive": {}, "sqlite": "3.53.1"}
    lock = {"site": [], "interpreter": interpreter}
    (slot / "release.json").write_text(json.dumps({"id": RELEASE, "lock": json.dumps(lock)}))
    node = replace(machine.node, system=Running())

    def version(*programs: str) -> tuple[str, str]:
        answer = sqlite_version.show(
            node,
            lambda _, name: frozenset(programs) if name == "python3." else frozenset(),
            lambda _: "3.53.4",
        )
        return answer["path"], answer["version"]

    assert version(str(program)) == (str(program), "3.53.1")
    assert version("/usr/bin/python3.11") == ("", "")
    elsewhere = str(slot / "venv/bin/python3.14")
    assert version(elsewhere) == ("", "")
    del interpreter["sqlite"]
    (slot / "release.json").write_text(json.dumps({"id": RELEASE, "lock": json.dumps(lock)}))
    assert version(str(program)) == ("", "")


def test_the_running_slots_library_comes_first(machine: NodeHome) -> None:
    assert list(libraries(machine.layout)) == []
    running, other = library_of(machine), library_of(machine, "0.19.0-ba9876543210")
    assert set(libraries(machine.layout)) == {running, other}
    machine.layout.current.symlink_to(running.parents[4])
    assert next(libraries(machine.layout)).resolve() == running
    with pytest.raises(RuntimeError, match="before the release's own"):
        load(machine.layout)  # this process has imported sqlite3


def test_mapped_files_are_those_of_the_kernel() -> None:
    code = "import sqlite3, sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        mapped = mapped_files.named(child.pid, "_sqlite3")
        child.communicate()
    assert [Path(path).name.partition(".")[0] for path in mapped] == ["_sqlite3"]
    assert mapped_files.named(child.pid, "_sqlite3") == frozenset()
