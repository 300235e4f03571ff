"""The local world as its operator has it: the command, real machines, and nothing left at the end."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.nspawn.world_lock import tag_of
from tests.support.suite.kept import cached_bases, shared_cache
from tests.support.worlds.local.left_worlds import remember_folder, remember_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]


@dataclass
class Ran:
    code: int
    stdout: str
    stderr: str


@dataclass
class Operator:
    """Types ``hermesops local …`` in an environment of their own."""

    home: Path

    @property
    def world(self) -> Path:
        return self.home / "local" / "world"

    def types(self, *words: str, **variables: str) -> Ran:
        settings = {"HERMESOPS_HOME": str(self.home), "HERMESOPS_CACHE": str(self.home / "cache"), **variables}
        # The command needs PATH and proxies, and knows no switches of tests.
        others = {name: text for name, text in os.environ.items() if not name.startswith("HERMESOPS_")}  # noqa: TID251
        environment = {**others, **settings}
        done = subprocess.run(
            [sys.executable, "-m", "hermesops", "local", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def status(self) -> dict[str, Any]:
        ran = self.types("status", "--json")
        assert ran.code == 0, ran.stderr
        return dict(json.loads(ran.stdout))

    def where(self) -> dict[str, Any]:
        """What programs read to find the world; brings it up when it is down."""
        if not (self.world / "world.json").exists():
            ran = self.types("up")
            assert ran.code == 0, ran.stderr
        return dict(json.loads((self.world / "world.json").read_text()))

    def key(self) -> str:
        return (self.world / "api.key").read_text().strip()

    def server(self) -> int:
        return int((self.world / "server.lock").read_text())


@pytest.fixture(scope="module")
def operator() -> Iterator[Operator]:
    # Not pytest's own folder: another run tidies that up, and a world holds mounts.
    home = Path(tempfile.mkdtemp(prefix="hermesops-operator-"))
    (home / "cache").mkdir()
    for name, kept in {"bases": cached_bases(), "tools": shared_cache() / "tools"}.items():
        kept.mkdir(parents=True, exist_ok=True)
        (home / "cache" / name).symlink_to(kept)
    operator = Operator(home)
    remember_world(operator.world)
    remember_folder(home)
    yield operator
    operator.types("down", "--purge", "--yes")
    shutil.rmtree(home)


@pytest.fixture
async def api(operator: Operator) -> AsyncIterator[httpx.AsyncClient]:
    where = operator.where()
    async with httpx.AsyncClient(
        base_url=f"{where['api_url']}/api/v1/",
        headers={"Authorization": f"Bearer {operator.key()}"},
        timeout=60,
        trust_env=False,
    ) as http:
        yield http


async def becomes(api: httpx.AsyncClient, path: str, status: str) -> dict[str, Any]:
    async def check() -> dict[str, Any] | Pending[dict[str, Any]]:
        row: dict[str, Any] = (await api.get(path)).json()
        return row if row["status"] == status else Pending(row["status"])

    return await until(check, what=f"{path} to be {status}", timeout_s=60, every_s=0.05)


async def rent(api: httpx.AsyncClient, name: str, **fields: object) -> dict[str, Any]:
    answer = await api.post("machines", json={"server_type": "starter", "region": "hel1", "name": name, **fields})
    assert answer.status_code == 202, answer.text
    return await becomes(api, f"machines/{answer.json()['id']}", "ready")


async def execute(api: httpx.AsyncClient, machine: dict[str, Any], command: str) -> str:
    answer = await api.post(f"machines/{machine['id']}/exec", json={"command": command})
    assert answer.status_code == 200, answer.text
    assert answer.json()["exit_code"] == 0, answer.text
    return str(answer.json()["stdout"])


async def test_a_rented_machine_is_a_computer_of_its_own(api: httpx.AsyncClient) -> None:
    machine = await rent(api, "own", env_vars={"GREETING": "it's me"})
    output = await execute(api, machine, "cat /etc/hostname /proc/1/comm; . /etc/justavps/env; echo $GREETING")
    assert output.split("\n") == [machine["slug"], "systemd", "it's me", ""]
    authorized = await execute(api, machine, "cat /root/.ssh/authorized_keys")
    assert authorized.strip() == machine["ssh_key"]["public_key"]
    assert "PRIVATE" not in await execute(api, machine, "grep -rsl PRIVATE /etc/justavps /root || true")
    assert (await api.delete(f"machines/{machine['id']}")).status_code == 204


async def test_the_proxy_reaches_a_service_on_loopback_and_only_with_a_token(
    api: httpx.AsyncClient, operator: Operator
) -> None:
    machine = await rent(api, "served")
    await execute(
        api, machine, "systemd-run -q --unit=site python3 -m http.server 9000 --bind 127.0.0.1 --directory /etc"
    )
    token = (await api.post("proxy-tokens", json={"machine_id": machine["id"], "label": "t"})).json()["token"]
    url = operator.where()["api_url"]
    host = machine["urls"]["port_template"].format(port=9000).removeprefix("http://")
    async with httpx.AsyncClient(headers={"Host": host}, trust_env=False, timeout=10) as http:

        async def served() -> str | Pending[str]:
            answer = await http.get(f"{url}/hostname", headers={"X-Proxy-Token": token})
            return answer.text if answer.status_code == 200 else Pending(str(answer.status_code))

        assert (await until(served, what="the site", timeout_s=20)).strip() == machine["slug"]
        assert (await http.get(f"{url}/hostname")).status_code == 401
    with socket.socket() as probe:
        probe.settimeout(2)
        assert probe.connect_ex((machine["ip"], 9000)) != 0
    await api.delete(f"machines/{machine['id']}")


async def test_machines_outlive_a_killed_server(api: httpx.AsyncClient, operator: Operator) -> None:
    machine = await rent(api, "survivor")
    born = await execute(api, machine, "stat -c %Y /proc/1 && echo kept > /root/mark")
    os.kill(operator.server(), signal.SIGKILL)
    ran = operator.types("up")
    assert ran.code == 0, ran.stderr
    assert operator.status()["machines"][0]["status"] == "ready"
    assert await execute(api, machine, "stat -c %Y /proc/1") == born
    await api.delete(f"machines/{machine['id']}")


async def test_a_machine_ordered_just_before_the_server_died_comes_up_once(
    api: httpx.AsyncClient, operator: Operator
) -> None:
    order = {"server_type": "starter", "region": "hel1", "name": "interrupted"}
    machine = (await api.post("machines", json=order)).json()
    os.kill(operator.server(), signal.SIGKILL)
    ran = operator.types("up")
    assert ran.code == 0, ran.stderr
    await becomes(api, f"machines/{machine['id']}", "ready")
    listed = (await api.get("machines")).json()["machines"]
    assert [row["id"] for row in listed] == [machine["id"]]
    assert await execute(api, machine, "cat /etc/hostname") == f"{machine['slug']}\n"
    await api.delete(f"machines/{machine['id']}")


async def test_a_reboot_a_stop_and_a_world_that_was_down_keep_the_disk(
    api: httpx.AsyncClient, operator: Operator
) -> None:
    machine = await rent(api, "patient")
    path = f"machines/{machine['id']}"
    await execute(api, machine, "echo kept > /root/mark; sync")

    started = "cut -d' ' -f22 /proc/1/stat"
    before = await execute(api, machine, started)
    assert (await api.post(f"{path}/reboot")).status_code == 202

    async def rebooted() -> bool | Pending[bool]:
        answer = await api.post(f"{path}/exec", json={"command": started})
        return (answer.status_code == 200 and answer.json()["stdout"] != before) or Pending(answer.text)

    await until(rebooted, what="the reboot", timeout_s=30, every_s=0.05)
    assert (await api.post(f"{path}/stop")).status_code == 202
    await becomes(api, path, "stopped")
    assert (await api.post(f"{path}/exec", json={"command": "true"})).status_code == 503
    await api.post(f"{path}/start")
    await becomes(api, path, "ready")
    # From inside, as its user would; the answer may be lost with the machine.
    await api.post(f"{path}/exec", json={"command": "systemd-run --on-active=0.2 systemctl poweroff"})
    await becomes(api, path, "stopped")
    assert operator.types("up").code == 0
    assert (await api.get(path)).json()["status"] == "stopped"
    await api.post(f"{path}/start")
    await becomes(api, path, "ready")
    assert operator.types("down").code == 0
    assert operator.status()["is_up"] is False
    assert operator.types("up").code == 0
    await becomes(api, path, "ready")
    assert await execute(api, machine, "cat /root/mark") == "kept\n"
    await api.delete(path)


async def test_an_image_carries_what_its_machine_had_installed(api: httpx.AsyncClient) -> None:
    machine = await rent(api, "pattern")
    await execute(api, machine, "echo installed > /opt/mark; sync")
    image = (await api.post(f"machines/{machine['id']}/image", json={"name": "pattern"})).json()
    image = await becomes(api, f"images/{image['id']}", "ready")
    await api.delete(f"machines/{machine['id']}")
    copy = await rent(api, "copy", image_id=image["id"], cloud_init_script="echo ran > /root/init")
    assert await execute(api, copy, "cat /opt/mark; cat /etc/hostname") == f"installed\n{copy['slug']}\n"
    assert copy["ssh_key"]["public_key"] in await execute(api, copy, "cat /root/.ssh/authorized_keys")
    assert (await api.delete(f"images/{image['id']}")).status_code == 409
    await api.delete(f"machines/{copy['id']}")
    assert (await api.delete(f"images/{image['id']}")).status_code == 204


async def test_a_backup_brings_the_disk_back_and_a_resize_makes_it_larger(api: httpx.AsyncClient) -> None:
    machine = await rent(api, "saved", enable_backups=True)
    path = f"machines/{machine['id']}"
    await execute(api, machine, "echo early > /root/mark; sync")
    backup = (await api.post(f"{path}/backups", json={"description": "before"})).json()["backup_id"]

    async def copied() -> bool | Pending[bool]:
        (row,) = (await api.get(f"{path}/backups")).json()["backups"]
        return row["status"] == "available" or Pending(row["status"])

    async def shows(command: str, wanted: str) -> None:
        async def observe() -> bool | Pending[bool]:
            answer = await api.post(f"{path}/exec", json={"command": command})
            output = answer.json().get("stdout", answer.text)
            return output == wanted or Pending(str(output))

        await until(observe, what=f"{command} to say {wanted!r}", timeout_s=60, every_s=0.1)

    async def resized() -> int | Pending[int]:  # refused until the restore has ended, which may answer before that
        answer = await api.post(f"{path}/resize", json={"server_type": "basic"})
        return Pending(answer.text) if answer.status_code == 409 else answer.status_code

    await until(copied, what="the backup", timeout_s=60, every_s=0.1)
    await execute(api, machine, "echo late > /root/mark; sync")
    assert (await api.post(f"{path}/backups/{backup}/restore")).status_code == 202
    await shows("cat /root/mark", "early\n")
    gibs = "df -BG --output=size / | tail -1 | tr -d ' G'"
    await shows(f"test $({gibs}) -lt 81 && echo small", "small\n")
    assert await until(resized, what="the resize to be accepted", timeout_s=60, every_s=0.1) == 202
    await shows(f"test $({gibs}) -gt 150 && echo large", "large\n")
    await becomes(api, path, "ready")
    assert await execute(api, machine, "cat /root/mark") == "early\n"
    assert (await api.delete(path)).status_code == 204


_ECHO = """
import base64, hashlib, socket
peer, _ = socket.create_server(("127.0.0.1", 9100)).accept()
head = b""
while b"\\r\\n\\r\\n" not in head:
    head += peer.recv(4096)
key = [line.split(b": ")[1] for line in head.split(b"\\r\\n") if line.lower().startswith(b"sec-websocket-key")][0]
accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
peer.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
             b"Sec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
frame = peer.recv(4096)
length, mask = frame[1] & 127, frame[2:6]
text = bytes(byte ^ mask[number % 4] for number, byte in enumerate(frame[6 : 6 + length]))
peer.sendall(bytes([0x81, length]) + text)
peer.recv(4096)
"""


async def test_a_websocket_reaches_a_service_on_a_real_machines_loopback(
    api: httpx.AsyncClient, operator: Operator
) -> None:
    machine = await rent(api, "talker")
    await api.post(f"machines/{machine['id']}/toolbox/files/upload?path=/root/echo.py", content=_ECHO.encode())
    await execute(
        api,
        machine,
        "systemd-run -q --unit=echo python3 /root/echo.py; until ss -ltn | grep -q 9100; do sleep 0.05; done",
    )
    token = (await api.post("proxy-tokens", json={"machine_id": machine["id"], "label": "t"})).json()["token"]
    port = int(operator.where()["api_url"].rsplit(":", 1)[1])
    url = machine["urls"]["port_template"].format(port=9100).replace("http://", "ws://")
    async with connect(
        url, host="127.0.0.1", port=port, additional_headers={"X-Proxy-Token": token}, proxy=None, compression=None
    ) as connection:
        await connection.send("over")
        assert await connection.recv() == "over"
    await api.delete(f"machines/{machine['id']}")


async def test_a_machine_reaches_the_model_router_and_nothing_else_of_this_computer(
    api: httpx.AsyncClient, operator: Operator
) -> None:
    machine = await rent(api, "curious")
    status = operator.where()
    output = await execute(
        api, machine, f"curl -s -m 5 -o /dev/null -w '%{{http_code}}' {status['model_base_url']}/models"
    )
    assert output == "401"
    port = status["api_url"].rsplit(":", 1)[1]
    gateway = status["model_base_url"].split("//")[1].split(":")[0]
    refused = await execute(api, machine, f"curl -s -m 2 http://{gateway}:{port}/ || echo no answer")
    assert refused == "no answer\n"
    await api.delete(f"machines/{machine['id']}")


async def test_several_machines_come_up_side_by_side(api: httpx.AsyncClient) -> None:
    machines = await asyncio.gather(*(rent(api, f"twin{number}") for number in range(3)))
    names = await asyncio.gather(*(execute(api, machine, "cat /etc/hostname") for machine in machines))
    assert [name.strip() for name in names] == [machine["slug"] for machine in machines]
    assert len({machine["ip"] for machine in machines}) == 3
    answers = await asyncio.gather(*(api.delete(f"machines/{machine['id']}") for machine in machines))
    assert {answer.status_code for answer in answers} == {204}


async def test_up_twice_is_one_world(api: httpx.AsyncClient, operator: Operator) -> None:
    before = operator.status()
    ran = operator.types("up")
    assert (ran.code, ran.stderr) == (0, "it was up already\n")
    assert operator.status()["pid"] == before["pid"]
    assert (await api.get("machines")).status_code == 200


def test_faults_are_ordered_and_forgotten_by_command(operator: Operator) -> None:
    assert operator.where()
    unknown = operator.types("fault", "set", "earthquake")
    assert (unknown.code, unknown.stderr) == (2, "error: no fault 'earthquake'\nhint: hermesops local fault kinds\n")
    assert operator.types("fault", "set", "lost-answer", "--times", "2").code == 0
    listed = json.loads(operator.types("fault", "list", "--json").stdout)
    assert [(fault["kind"], fault["times"]) for fault in listed["faults"]] == [("lost-answer", 2)]
    words = ("server-error", "--probability", "0.5", "--seed", "7", "--for", "600", "--path", "/machines/*/reboot")
    ordered = operator.types("fault", "set", *words)
    assert (ordered.code, ordered.stdout) == (0, "server-error: will happen every time\n")
    assert operator.types("fault", "set", "server-error", "--probability", "2").code == 2
    assert operator.types("fault", "clear").stdout == "2 faults removed\n"
    assert "rate-limited" in operator.types("fault", "kinds").stdout


def test_the_status_says_what_machines_are_held_to(operator: Operator) -> None:
    assert operator.where()
    assert "limits  " in operator.types("status").stdout
    assert set(operator.status()["unlimited"]) <= {"memory", "cpu"}


class TestRefusals:
    """One line that says what and what next; nothing half-made."""

    def test_a_missing_program_is_named(self, tmp_path: Path) -> None:
        ran = Operator(tmp_path / "home").types("up", PATH="/nonexistent")
        assert ran.code == 3
        assert "systemd-nspawn" in ran.stderr
        assert "apt-get install" in ran.stderr
        assert not (tmp_path / "home").exists()

    def test_a_taken_port_is_named(self, operator: Operator) -> None:
        port = int(operator.where()["api_url"].rsplit(":", 1)[1])
        assert operator.types("down").code == 0
        with socket.create_server(("127.0.0.1", port)):
            ran = operator.types("up")
        assert ran.code == 4
        assert f"127.0.0.1:{port}" in ran.stderr
        assert operator.types("up").code == 0

    def test_commands_to_a_world_that_is_down_say_how_to_start_it(self, tmp_path: Path) -> None:
        nobody = Operator(tmp_path)
        assert nobody.status()["is_up"] is False
        for words in (("fault", "list"), ("fault", "set", "lost-answer"), ("fault", "clear")):
            ran = nobody.types(*words)
            assert (ran.code, "hermesops local up" in ran.stderr) == (4, True)
        assert nobody.types("down", "--purge").code == 0


def test_purge_leaves_nothing_even_of_a_damaged_world(operator: Operator) -> None:
    response = httpx.post(
        f"{operator.where()['api_url']}/api/v1/machines",
        json={"server_type": "starter", "region": "hel1", "name": "doomed"},
        headers={"Authorization": f"Bearer {operator.key()}"},
        trust_env=False,
    )
    assert response.status_code == 202
    tag = tag_of(operator.world)
    os.kill(operator.server(), signal.SIGKILL)
    for name in ("world.db-wal", "world.db-shm"):
        (operator.world / name).unlink(missing_ok=True)
    (operator.world / "world.db").write_bytes(b"rubbish" * 1000)
    damaged = operator.types("up")
    assert (damaged.code, "--purge" in damaged.stderr) == (70, True)
    ran = operator.types("down", "--purge", "--yes")
    assert ran.code == 0, ran.stderr
    assert not operator.world.exists()
    for command in (["ip", "-o", "link"], ["ip", "netns"], ["nft", "list", "tables"], ["cat", "/proc/mounts"]):
        stdout = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"lc{tag}" not in stdout
        assert str(operator.world) not in stdout
    groups = list(Path("/sys/fs/cgroup").rglob(f"*lc{tag}*"))
    assert groups == []
