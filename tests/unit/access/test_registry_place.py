"""Which epochs an environment knows of, and which URLs are of one registry."""

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
    one, other = place(tmp_path, HOST), place(tmp_path, f"{HOST}?{more}")
    assert one.anchor.path == other.anchor.path
    assert place(tmp_path, HOST.replace("10.0.0.1", "10.0.0.2")).anchor.path != one.anchor.path
