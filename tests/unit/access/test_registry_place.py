"""Which epochs an environment knows of, and which URLs are of one registry."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermesops.access.registry_place import RegistryPlace
from hermesops.model.access.audit import AuditHead
from hermesops.settings.environment import Environment

HOST = "postgresql://hermesops@10.0.0.1/hermesops"


def place(home: Path, url: str) -> RegistryPlace:
    environ = {"HERMESOPS_HOME": str(home), "HERMESOPS_REGISTRY_URL": url}
    return RegistryPlace(Environment.load("local", environ), lambda *_, **__: None)


def test_a_registry_that_moved_to_another_host_has_not_forgotten_its_epochs(tmp_path: Path) -> None:
    assert place(tmp_path, HOST).highest_epoch() == 0
    place(tmp_path, HOST).anchor.append(AuditHead(3, 7, "a" * 64))
    place(tmp_path, "").anchor.append(AuditHead(2, 9, "b" * 64))
    assert place(tmp_path, HOST.replace("10.0.0.1", "10.0.0.2")).highest_epoch() == 3


@pytest.mark.parametrize("more", ["sslcert=/a", "sslkey=/a", "sslrootcert=/a", "user=other"])
def test_who_asks_makes_no_other_registry(tmp_path: Path, more: str) -> None:
    first, other = place(tmp_path, HOST), place(tmp_path, f"{HOST}?{more}")
    assert first.anchor.path == other.anchor.path
    assert place(tmp_path, HOST.replace("10.0.0.1", "10.0.0.2")).anchor.path != first.anchor.path


def registry_at(home: Path, *, changed: str = "") -> RegistryPlace:
    own = place(home, "")
    own.open().audit.append("command_run", "instance/1", why="before")
    if changed:
        assert own.file
        with closing(sqlite3.connect(own.file)) as registry, registry:
            registry.execute(changed)
    return own


@pytest.mark.parametrize(
    "changed",
    [
        "UPDATE alembic_version SET version_num = '0042'",
        "ALTER TABLE users RENAME COLUMN created_at TO made",
        "DROP TABLE alembic_version",
    ],
    ids=["another revision", "another column", "none at all"],
)
def test_a_registry_of_another_hermesops_goes_aside_with_its_anchor_and_a_new_one_begins(
    tmp_path: Path, changed: str
) -> None:
    own = registry_at(tmp_path, changed=changed)
    aside = own.set_aside_foreign()
    assert aside
    assert {"registry.db", "audit.anchor"} <= {path.name for path in aside.iterdir()}
    assert own.open().audit.list(limit=9) == ()
    assert own.set_aside_foreign() is None


def test_a_registry_of_this_hermesops_stays_and_so_does_one_elsewhere(tmp_path: Path) -> None:
    own = registry_at(tmp_path)
    assert own.set_aside_foreign() is None
    assert len(own.open().audit.list(limit=9)) == 1
    foreign = registry_at(tmp_path / "other", changed="UPDATE alembic_version SET version_num = '0042'")
    assert foreign.file
    assert place(tmp_path / "third", f"sqlite:///{foreign.file}").set_aside_foreign() is None
    assert foreign.file.exists()
