"""Hosts of the registry and listed machines, as ansible-inventory reads them with our plugin; no machine is asked."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.model.ids import CellName, MachineId
from tests.support.real.stores.registries import placed, registry_at

pytestmark = pytest.mark.turns(5)

PROGRAM = Path(sys.executable).with_name("ansible-inventory")


def _inventory(folder: Path, *lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "hosts.yml").write_text("\n".join(["plugin: registry", *lines]))
    environ = {"PATH": os.defpath, "HOME": str(folder), "ANSIBLE_NOCOLOR": "1", **variables}
    environ["ANSIBLE_CONFIG"] = str(assets.folder("ansible") / "ansible.cfg")
    words = [str(PROGRAM), "--list", "-i", str(folder / "hosts.yml")]
    return subprocess.run(words, env=environ, cwd=folder, capture_output=True, text=True, check=False)


def _plain(read: dict[str, object]) -> object:
    """Ansible marks texts that it would not read as templates."""
    return read.get("__ansible_unsafe", read)


def test_instances_with_a_machine_are_hosts_beside_those_listed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    with contextlib.closing(registry_at(url)) as registry:
        ada, _ = (placed(registry, alias, cell=CellName("hel1-01")) for alias in ("ada", "bob"))
        registry.instances.set_machine(ada.id, MachineId("m-1"))
    done = _inventory(tmp_path, f"url: {url}", "machines: {edge: m-2}")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout, object_hook=_plain)
    hosts = listed["_meta"]["hostvars"]
    assert {name: host["ansible_toolbox_machine"] for name, host in hosts.items()} == {"ada": "m-1", "edge": "m-2"}
    assert sorted(listed["instances"]["hosts"]) == ["ada", "edge"]
    assert listed["cell_hel1_01"]["hosts"] == ["ada"]
    assert hosts["ada"]["hermes_instance_id"] == ada.id


def test_neither_a_registry_nor_machines_is_an_error_that_says_so(tmp_path: Path) -> None:
    done = _inventory(tmp_path)
    assert done.returncode != 0
    assert "names neither a registry nor machines" in done.stderr


def test_a_registry_that_is_none_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    done = _inventory(tmp_path, HERMESOPS_REGISTRY_URL=f"sqlite:///{tmp_path}/empty.db")
    assert done.returncode != 0
    assert "hermesops registry migrate" in done.stderr
