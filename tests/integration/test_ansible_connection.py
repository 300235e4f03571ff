"""Plain ansible-playbook over the toolbox of a booted machine, with hosts from the registry."""

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hermesops.base import assets
from hermesops.model.ids import CellName, MachineId
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client
from tests.support.real.machines.machine import opened_driver
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.local_server import LocalCloud
from tests.support.worlds.local.local_server import serving as serving_cloud

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

LARGE_MIB = 200


@dataclass
class Bench:
    """A machine, a channel to it, and where the API is."""

    cloud: LocalCloud
    machine_id: str
    channel: ToolboxChannel

    @property
    def environ(self) -> dict[str, str]:
        return {
            "ANSIBLE_CONFIG": str(assets.folder("ansible") / "ansible.cfg"),
            "HERMESOPS_API_URL": f"{self.cloud.where.api_url}/api/v1",
            "HERMESOPS_API_KEY_FILE": str(self.cloud.folder / "api.key"),
        }


@pytest.fixture(scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    require(os.geteuid() == 0, "root, to boot machines")
    folder = tmp_path_factory.mktemp("world")
    async with opened_driver() as driver, serving_cloud(folder, driver) as cloud:
        machine_id = str((await cloud.ready("ansible"))["id"])
        async with Client(f"{cloud.where.api_url}/api/v1", (folder / "api.key").read_text().strip()) as client:
            yield Bench(cloud, machine_id, ToolboxChannel(client, machine_id))


@pytest.fixture
def inventory(bench: Bench, tmp_path: Path) -> Path:
    file = tmp_path / "inventory.yml"
    file.write_text(yaml.safe_dump({"plugin": "registry", "machines": {"edge": bench.machine_id}}))
    return file


async def _ansible(command: str, *arguments: str, **environ: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name(command)),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", **environ},
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


async def _play(bench: Bench, inventory: Path, *tasks: str, **environ: str) -> str:
    """Run tasks on the machine; the output of a run in which all of them succeeded."""
    file = inventory.with_name("play.yml")
    lines = "\n".join(f"    - {task}" for task in tasks)
    file.write_text(f"- hosts: instances\n  gather_facts: false\n  tasks:\n{lines}\n")
    code, output = await _ansible("ansible-playbook", "-i", str(inventory), str(file), **{**bench.environ, **environ})
    assert code == 0, output
    return output


async def test_a_task_runs_on_the_machine_as_root_without_leaving_its_module(bench: Bench, inventory: Path) -> None:
    await _play(
        bench,
        inventory,
        "{command: hostname, register: name, changed_when: false}",
        "{command: id -un, register: who, changed_when: false}",
        "{command: ls /run /run/ansible, register: left, changed_when: false, failed_when: false}",
        "{assert: {that: [who.stdout == 'root', left.stdout is not search('stdin|ansible-tmp')]}}",
        f"{{assert: {{that: name.stdout == '{(await bench.channel.run('hostname')).text}'}}}}",
    )


async def test_become_is_somebody_lesser(bench: Bench, inventory: Path) -> None:
    await _play(
        bench,
        inventory,
        "{command: id -un, become: true, become_user: nobody, register: who, changed_when: false}",
        "{assert: {that: who.stdout == 'nobody'}}",
        "{copy: {content: text, dest: /var/tmp/of-nobody, mode: '0600'}, become: true, become_user: nobody}",
        "{stat: {path: /var/tmp/of-nobody}, register: file}",
        "{assert: {that: [file.stat.pw_name == 'nobody', file.stat.mode == '0600']}}",
    )


async def test_a_run_as_another_user_owns_its_files(bench: Bench, inventory: Path) -> None:
    await _play(
        bench,
        inventory,
        "{command: id -un, register: who, changed_when: false}",
        "{copy: {content: text, dest: /var/tmp/of-daemon, mode: '0600'}}",
        "{stat: {path: /var/tmp/of-daemon}, register: file}",
        "{assert: {that: [who.stdout == 'daemon', file.stat.pw_name == 'daemon']}}",
        ANSIBLE_REMOTE_USER="daemon",
        ANSIBLE_REMOTE_TMP="/var/tmp/ansible-daemon",  # noqa: S108 - on the machine, of one user's
    )


async def test_files_of_any_bytes_go_there_and_back(bench: Bench, inventory: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 1000)
    await _play(
        bench,
        inventory,
        f"{{copy: {{src: {source}, dest: /var/tmp/copied, mode: '0640'}}}}",
        f"{{fetch: {{src: /var/tmp/copied, dest: {tmp_path}/back, flat: true}}}}",
    )
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert (await bench.channel.run("stat -c '%a %U' /var/tmp/copied")).text == "640 root"


async def test_a_large_file_goes_there_and_back(bench: Bench, inventory: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    piece = os.urandom(1 << 20)
    with source.open("wb") as file:
        for number in range(LARGE_MIB):
            file.write(number.to_bytes(4, "big") + piece[4:])
    await _play(
        bench,
        inventory,
        f"{{copy: {{src: {source}, dest: /var/tmp/large, mode: '0600'}}}}",
        f"{{fetch: {{src: /var/tmp/large, dest: {tmp_path}/back, flat: true}}}}",
    )
    assert _digest(tmp_path / "back") == _digest(source)
    await bench.channel.delete("/var/tmp/large")  # noqa: S108 - on the machine


async def test_errors_of_a_task_come_back_whole(bench: Bench, inventory: Path) -> None:
    await _play(
        bench,
        inventory,
        "{command: sh -c 'echo out; echo wrong >&2; exit 7', register: done, failed_when: false, changed_when: false}",
        "{assert: {that: [done.rc == 7, done.stdout == 'out', done.stderr == 'wrong']}}",
        "{slurp: {src: /nonexistent}, register: missing, failed_when: false}",
        "{assert: {that: \"'not found' in missing.msg\"}}",
    )


async def test_a_silent_task_outlives_an_edge_that_cuts_silence(bench: Bench, inventory: Path) -> None:
    await bench.cloud.fault("silence-cut", seconds=2, times=99)
    await _play(
        bench,
        inventory,
        "{shell: 'echo ran >>/run/ran; sleep 5; echo end', register: slow, changed_when: false}",
        "{command: cat /run/ran, register: ran, changed_when: false}",
        "{assert: {that: [slow.stdout == 'end', ran.stdout == 'ran']}}",
    )
    (left,) = (await bench.cloud.http.get("/local/faults")).json()["faults"]
    assert left["times"] < 99
    await bench.cloud.http.delete("/local/faults")


async def test_a_second_run_changes_nothing(bench: Bench, inventory: Path) -> None:
    tasks = (
        "{copy: {content: same, dest: /etc/same, mode: '0644'}}",
        "{file: {path: /var/lib/same, state: directory, mode: '0700', owner: daemon}}",
    )
    assert "changed=2" in await _play(bench, inventory, *tasks)
    assert "changed=0" in await _play(bench, inventory, *tasks)


async def test_a_wrong_key_is_said(bench: Bench, inventory: Path, tmp_path: Path) -> None:
    key = tmp_path / "wrong.key"
    key.touch(mode=0o600)
    key.write_text("sk_live_wrong")
    (tmp_path / "play.yml").write_text('- hosts: instances\n  gather_facts: false\n  tasks: [{command: "true"}]\n')
    environ = {**bench.environ, "HERMESOPS_API_KEY_FILE": str(key)}
    code, output = await _ansible("ansible-playbook", "-i", str(inventory), str(tmp_path / "play.yml"), **environ)
    assert code != 0
    assert "Missing or invalid API key" in output
    assert "sk_live_wrong" not in output


async def test_hosts_of_the_registry_are_reached_by_name(bench: Bench, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    with contextlib.closing(registry_at(url)) as registry:
        for alias, machine_id in (("ada", bench.machine_id), ("bob", None)):
            instance = placed(registry, alias, cell=CellName("hel1-01"))
            if machine_id:
                registry.instances.set_machine(instance.id, MachineId(machine_id))
    code, output = await _ansible(
        "ansible",
        *("cell_hel1_01", "-i", str(assets.folder("ansible") / "inventory" / "registry.yml")),
        *("-m", "command", "-a", "echo {{ inventory_hostname }} {{ hermes_plan }}"),
        **bench.environ,
        HERMESOPS_REGISTRY_URL=url,
    )
    assert code == 0, output
    assert "ada light" in output
    assert "bob" not in output


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
