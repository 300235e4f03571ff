"""An encrypted data volume on a whole computer: opened with the platform's key or not at all, and noise on its disk.

The unit and hermes-node are the roles' own. The platform is `hermesops identity serve` of a local world, or, where it
must answer what that never does, a service on the guest's loopback.
"""

import inspect
import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermesops.access.pki.authority import Authority, OwnedCertificate
from hermesops.base.waiting import Pending, until
from hermesops.programs.node import build
from hermesops.programs.node.system import openssl
from hermesops.programs.node.system.data_volume import with_gb
from hermesops.wire.protocol import GB, PROGRAM, VARIABLES, Credential
from tests.support.crash import death
from tests.support.crash.programs import volume_deaths
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.real.commands.command import local_world
from tests.support.real.machines.qemu_guest import Guest, booted_guest
from tests.support.releases.role_files import rendered
from tests.support.worlds.machine_identities import Machine, machine_of

pytestmark = pytest.mark.qemu

SAYING = "the sentence that nobody may find on the disk"
CONTROL = "the sentence that lies beside the volume"
UNIT = "hermes-data.service"
ASKED = ("--reason", "test")
SLOW_S = 300.0
"""For anything at all: a computer without KVM, beside other work."""

DEATHS_S = 3600.0

PACKAGES = ("cryptsetup-bin", "e2fsprogs", "socat")  # the last is the tests' own
SERVICE = """
import http.server, pathlib, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = pathlib.Path("/run/platform") / "key"
        volume = self.path.rpartition("/")[2]
        (path.parent / "asked").open("a").write(volume + "\\n")
        self.send_response(200 if path.exists() else 403)
        self.end_headers()
        self.wfile.write(path.read_bytes() if path.exists() else b'{"error": "revoked"}')
    def log_message(self, *words): pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.verify_mode = ssl.CERT_REQUIRED
context.load_cert_chain("/run/platform/service.pem")
context.load_verify_locations("/etc/hermes-node/authority.crt")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


async def output(guest: Guest, command: str) -> str:
    """What a command prints that must work."""
    return await guest.output(command, timeout_s=SLOW_S)


async def install(guest: Guest, *, gigabytes: int = 1) -> None:
    """Put on a freshly booted guest what image and vendor put on a machine."""
    await output(guest, "mkdir -p /var/lib/hermes-data && mount /dev/vdb /var/lib/hermes-data")
    await output(guest, f"echo {CONTROL!r} >/var/lib/hermes-data/beside")
    await output(
        guest,
        "useradd --system --home-dir /var/lib/hermes --shell /usr/sbin/nologin hermes"
        " && install -d -o hermes -g hermes -m 700 /var/lib/hermes /var/lib/hermes/skills",
    )
    await guest.put("/var/lib/hermes/skills/SKILL.md", "as the image has it")
    await guest.put(PROGRAM, build.zipapp(), mode=0o755)
    await guest.put(f"/etc/systemd/system/{UNIT}", rendered("hermes_data", f"{UNIT}.j2"))
    await guest.put(VARIABLES, with_gb(b"", gigabytes))
    await output(guest, "systemctl daemon-reload")


def fresh_disk(folder: Path) -> Path:
    """A disk of 8 GiB with an empty file system."""
    disk = folder / "disk.raw"
    disk.touch()
    os.truncate(disk, 8 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    return disk


@dataclass(frozen=True)
class Computer:
    """A rented machine, of which the disk that holds the volume outlives a boot.

    Attributes:
        data_key: What the platform keeps for its volume.
    """

    disk: Path
    credential: Credential
    own_key: bytes
    service: OwnedCertificate
    data_key: str

    async def install(self, guest: Guest, *, gigabytes: int = 1) -> None:
        """Put on a freshly booted guest what a machine has, and a platform; nothing is opened yet."""
        await install(guest, gigabytes=gigabytes)
        await guest.put("/etc/hermes-node/machine.crt", self.credential.to_pem(), mode=0o600)
        await guest.put("/etc/hermes-node/authority.crt", self.credential.authority)
        await guest.put("/run/platform/service.pem", f"{self.service.pem}{self.service.key}", mode=0o600)
        await guest.put("/run/platform/service.py", SERVICE)
        await guest.put("/run/platform/key", self.data_key)
        await output(guest, "systemd-run --no-block --unit=platform python3 /run/platform/service.py")

    async def certify(self, guest: Guest) -> None:
        """Give the machine its key, without which its certificate is none."""
        await guest.put("/etc/hermes-node/machine.key", self.own_key, mode=0o600)


@pytest.fixture(scope="module")
def computer(tmp_path_factory: pytest.TempPathFactory) -> Computer:
    folder = tmp_path_factory.mktemp("computer")
    authority: Authority = authority_in(folder)
    own = openssl.make()
    credential = credential_of(authority, openssl.request(own).decode(), url="https://127.0.0.1:8443")
    return Computer(
        fresh_disk(folder), credential, own, authority.serve(["127.0.0.1"], life=timedelta(days=1)), "5c" * 32
    )


async def shown(guest: Guest) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(await output(guest, f"{PROGRAM} volume show"))
    return document


async def comes_to_be(guest: Guest, kind: str, why: str = "") -> dict[str, Any]:
    """Wait until the volume is in that state, for that reason."""

    async def observe() -> dict[str, Any] | Pending[dict[str, Any]]:
        metrics = await shown(guest)
        return metrics if metrics["kind"] == kind and why in metrics["why"] else Pending(str(metrics))

    return await until(observe, what=f"a volume that is {kind}", timeout_s=SLOW_S, every_s=0.5)


def is_on(disk: Path, words: str) -> bool:
    """Whether these words are anywhere on a raw disk; what was never written is passed over."""
    with disk.open("rb") as file, suppress(OSError):  # there is no more data
        end = 0
        while True:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            if words.encode() in os.pread(file.fileno(), end - start, start):
                return True
    return False


async def test_what_an_agent_writes_opens_with_the_platforms_key_alone_and_is_noise_on_the_disk(
    computer: Computer,
) -> None:
    async with booted_guest(packages=PACKAGES, disks=[computer.disk]) as guest:
        await computer.install(guest)
        # First boot: nobody has given it a certificate yet.
        await output(guest, f"systemctl start --no-block {UNIT}")
        await comes_to_be(guest, "closed", "no certificate yet")
        await computer.certify(guest)
        status = await comes_to_be(guest, "open")
        assert status["encrypted"]
        assert 0.7 * GB < status["size"] <= GB
        assert await output(guest, "cat /var/lib/hermes/skills/SKILL.md") == "as the image has it"
        assert await output(guest, "stat -c '%U %a' /var/lib/hermes; ls -A /var/lib/hermes") == "hermes 700\nskills"

        async def as_agent(command: str) -> str:
            done = await guest.run(command, user="hermes", cwd="/var/lib/hermes", timeout_s=SLOW_S)
            return done.text + done.stderr.decode()

        await as_agent(f"echo {SAYING!r} >memory && sync -f .")
        assert "No space left" in await as_agent("fallocate -l 2G big")
        assert await output(guest, "echo well >/root/beside && cat /root/beside") == "well"
        await as_agent("rm big")

        # Closed, nothing of it is there, and neither another key nor a revoked machine opens it.
        await output(guest, f"systemctl stop {UNIT}")
        assert (await shown(guest))["kind"] == "closed"
        assert "memory" not in await output(guest, "ls -A /var/lib/hermes; ls /dev/mapper")
        await guest.put("/run/platform/key", "ca" * 32)
        await output(guest, f"systemctl start --no-block {UNIT}")
        await comes_to_be(guest, "closed", "does not open the data volume")
        await output(guest, "rm /run/platform/key")
        await comes_to_be(guest, "closed", "403")
        await guest.put(VARIABLES, with_gb(b"", 2))
        await guest.put("/run/platform/key", computer.data_key)
        status = await comes_to_be(guest, "open")
        assert 1.7 * GB < status["size"] <= 2 * GB
        assert await output(guest, "cat /var/lib/hermes/memory") == SAYING
        assert len(set((await output(guest, "cat /run/platform/asked")).split())) == 1
        await as_agent(f"echo {SAYING!r} >>memory && sync -f .")
        # Now the power goes.

    assert is_on(computer.disk, CONTROL)
    assert not is_on(computer.disk, SAYING)
    assert not is_on(computer.disk, computer.data_key)

    async with booted_guest(packages=PACKAGES, disks=[computer.disk]) as guest:
        await computer.install(guest, gigabytes=2)
        await computer.certify(guest)
        await output(guest, f"systemctl start {UNIT}")
        assert (await output(guest, "cat /var/lib/hermes/memory")).splitlines() == [SAYING, SAYING]
        assert (await shown(guest))["encrypted"]
        await output(guest, f"systemctl stop {UNIT}")
    assert not is_on(computer.disk, SAYING)


async def identify(guest: Guest, machine: Machine) -> None:
    """Give the guest what a machine of a local world proves itself with."""
    await guest.put("/etc/hermes-node/machine.crt", machine.credential.to_pem(), mode=0o600)
    await guest.put("/etc/hermes-node/authority.crt", machine.credential.authority)
    await guest.put("/etc/hermes-node/machine.key", machine.key, mode=0o600)


async def test_the_platforms_own_service_opens_it_to_its_machine_until_that_is_trusted_no_more(tmp_path: Path) -> None:
    disk = fresh_disk(tmp_path)
    async with local_world(tmp_path / "home", driver="sim") as world:
        await world.ok("provision", "ada", "--plan", "light")
        machine = await machine_of(world, "ada")
        port = urlsplit(machine.credential.url).port
        assert port
        async with booted_guest(packages=PACKAGES, disks=[disk], reaches=port) as guest:
            await install(guest)
            await identify(guest, machine)
            await output(guest, f"systemctl start {UNIT}")
            assert (await shown(guest))["encrypted"]
            await output(guest, f"echo {SAYING!r} >/var/lib/hermes/memory")
            await output(guest, f"systemctl stop {UNIT}")

            await world.ok("identity", "revoke", "ada", "--yes", *ASKED)
            await output(guest, f"systemctl start --no-block {UNIT}")
            await comes_to_be(guest, "closed", "is no longer valid")
            await world.ok("identity", "renew", "ada")
            await identify(guest, await machine_of(world, "ada"))
            await comes_to_be(guest, "open")
            assert await output(guest, "cat /var/lib/hermes/memory") == SAYING
            await output(guest, f"systemctl stop {UNIT}")

            await world.ok("instance", "terminate", "ada", "--now", "--without-backup", "--yes", *ASKED)
            await output(guest, f"systemctl start --no-block {UNIT}")
            await comes_to_be(guest, "closed", "is no longer valid")
    assert is_on(disk, CONTROL)
    assert not is_on(disk, SAYING)


@pytest.mark.parametrize("what", ["make", "grow"])
async def test_a_volume_is_whole_wherever_its_making_or_growing_was_killed(tmp_path: Path, what: str) -> None:
    async with booted_guest(packages=PACKAGES, disks=[fresh_disk(tmp_path)]) as guest:
        await install(guest)
        for module in (death, volume_deaths):
            await guest.put(f"/root/{module.__name__.replace('.', '/')}.py", inspect.getsource(module))
        program = f"cd /root && python3 -m {volume_deaths.__name__}"
        output = await guest.output(f"{program} /var/lib/hermes-data {what}", timeout_s=DEATHS_S)
        deaths = json.loads(output)["deaths"]
        print(f"{what}: killed {deaths} times")  # noqa: T201 - for whoever soaks
        assert deaths > len(volume_deaths.MOMENTS)
