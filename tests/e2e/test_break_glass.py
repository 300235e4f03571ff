"""Break glass on a real machine whose toolbox and proxy are cut; by commands, and by ssh as it is printed."""

import asyncio
import json
import shlex
import socket
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermesops.access.identity.signatures import fresh_key
from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError
from hermesops.vendor.channel.ssh import SshMachine, connected
from tests.support.fakes.machines.polled_machine import HOST_KEY
from tests.support.real.commands.command import Command, Ran

pytestmark = [pytest.mark.machines, pytest.mark.turns(120)]

ASKED = ("--reason", "test")
STATE = (
    "systemctl is-active hermes-break-glass; ls /run/hermes-node; cat /etc/shadow | grep -c '^root:.!'; "
    "nft list set inet hermes break_glass_ipv4; systemctl list-units --state=failed --plain --no-legend"
)

ASK = "{ hermes-node orders >/dev/null || [ $? -eq 4 ]; }"
"""Has the machine ask for orders now; that the platform does not answer is none of its faults."""

_GONE = (
    "systemctl kill --signal=KILL hermes-orders; systemctl stop hermes-orders.timer; systemctl reset-failed "
    "hermes-orders; echo gone"
)


@dataclass(frozen=True)
class Broken:
    """A user's machine."""

    command: Command
    user: str

    async def order(self, *words: str) -> Ran:
        return await self.command.run("instance", "break-glass", self.user, *ASKED, *words)

    async def on_machine(self, line: str) -> str:
        return (await self.command.ok("instance", "exec", self.user, line, *ASKED)).stdout

    async def ordered_now(self, *words: str) -> Ran:
        """As ``order``; the machine is told to ask at once, which it would do by itself within half a minute."""
        ordering = asyncio.create_task(self.order(*words))
        while not ordering.done():
            await self.on_machine(ASK)
        return await ordering

    async def state(self) -> str:
        return await self.on_machine(STATE)

    async def is_closed(self) -> bool | Pending[bool]:
        state = await self.state()
        is_it = "inactive" in state and "break-glass" not in state.split("table")[0] and "elements" not in state
        return True if is_it else Pending(state)


@pytest.fixture(scope="module")
async def ada(world: Command) -> AsyncIterator[Broken]:
    user = f"u{uuid.uuid4().hex[:8]}"
    await world.ok("provision", user, "--plan", "light")
    broken = Broken(world, user)
    await broken.on_machine(ASK)
    yield broken
    await world.ok("local", "fault", "clear")
    await world.ok("instance", "terminate", user, "--yes", *ASKED)


def connects(address: str) -> bool:
    try:
        socket.create_connection((address, 22), timeout=3).close()
    except OSError:
        return False
    return True


async def ssh(line: str, command: str, *, key: Path | None = None) -> asyncio.subprocess.Process:
    words = shlex.split(line)
    if key is not None:
        words[words.index("-i") + 1] = str(key)
    return await asyncio.create_subprocess_exec(
        *words,
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.fixture
async def cut_off(ada: Broken) -> AsyncIterator[None]:
    """Neither toolbox nor proxy answers."""
    await ada.command.ok("local", "fault", "set", "edge-error", "--path", "/machines/*/toolbox", "--for", "600")
    await ada.command.ok("local", "fault", "set", "proxy-unauthorised", "--for", "600")
    yield
    await ada.command.ok("local", "fault", "clear")


@pytest.mark.usefixtures("cut_off")
async def test_the_runbook_gets_onto_a_machine_that_is_cut_off(ada: Broken) -> None:
    ran = await ada.command.run("runbook", "run", "break-glass", "--instance", ada.user, "--yes")
    assert ran.exit_code == 0, str(ran)


@pytest.mark.usefixtures("cut_off")
async def test_the_machine_opens_by_itself_and_closes_by_itself(ada: Broken, tmp_path: Path) -> None:
    cut = await ada.command.run("instance", "exec", ada.user, "true", *ASKED)
    assert cut.exit_code != 0

    # A command; its streams and its exit code are those of the machine.
    ran = await ada.order("--for", "3m", "--", "sh", "-c", "id -u; echo bad >&2; exit 7")
    assert (ran.exit_code, ran.stdout) == (7, "0\n")
    assert "bad\n" in ran.stderr
    assert ran.seconds < 60

    # The command that is printed; only this key, only this address, only this machine.
    began = time.monotonic()
    printed = (await ada.order("--for", "75s", "--print", "--json")).json
    line, address = printed["command"], printed["address"]
    stranger = tmp_path / "stranger.key"
    stranger.write_text(fresh_key())
    stranger.chmod(0o600)
    refused = await ssh(line, "true", key=stranger)
    assert b"Permission denied" in (await refused.communicate())[1]
    own_key = Path(shlex.split(line)[shlex.split(line).index("-i") + 1])
    with (
        pytest.raises(RefusedError, match="has another host key"),
        connected(SshMachine(address, HOST_KEY), own_key, ""),
    ):
        pass
    forwarded = await ssh(line.replace("ssh ", "ssh -o ExitOnForwardFailure=yes -R 9999:127.0.0.1:1 ", 1), "true")
    assert (await forwarded.communicate(), forwarded.returncode)[1] == 255

    # hermes-node is gone: nothing of ours is left to close it.
    gone = await ssh(line, _GONE)
    assert b"gone" in (await gone.communicate())[0]
    session = await ssh(line, "echo in; sleep 600")
    assert session.stdout is not None
    assert await session.stdout.readline() == b"in\n"
    assert connects(address)
    async with asyncio.timeout(120):
        await session.wait()
    assert session.returncode == 255
    assert time.monotonic() - began < 75 + 15
    assert not connects(address)

    await ada.command.ok("local", "fault", "clear")
    state = await ada.state()
    assert "inactive" in state
    assert "elements" not in state
    assert "break-glass" not in state.split("table")[0]
    assert "failed" not in state
    assert "active" in await ada.on_machine(
        f"systemctl start hermes-orders.timer; {ASK}; systemctl is-active hermes-orders.timer"
    )
    audited = (await ada.command.ok("instance", "timeline", ada.user, "--json")).json["timeline"]
    actions = [entry["what"] for entry in audited if "glass" in entry["what"]]
    assert {"break_glass_ordered", "break_glass_opened", "break_glass_closed"} <= set(actions), actions


async def test_another_address_does_not_get_in_and_it_is_ended_early(ada: Broken) -> None:
    unreachable = await ada.ordered_now("--source", "192.0.2.9", "--print")
    assert unreachable.exit_code == 3
    assert "no route from here to 192.0.2.9" in unreachable.stderr
    await ada.on_machine("ip route add 192.0.2.9/32 dev eth0")
    printed = (await ada.ordered_now("--source", "192.0.2.9", "--print", "--json")).json
    assert printed["source"] == "192.0.2.9/32"
    assert "hermes-break-glass" in await ada.on_machine("systemctl list-units --state=active --plain")
    assert not connects(printed["address"])
    closed = await ada.order("--close", "--json")
    assert closed.json["orders"] == [printed["order"]]
    await ada.on_machine(ASK)
    await until(ada.is_closed, what="sshd to be closed", timeout_s=60, every_s=1)


async def test_a_boot_closes_it(ada: Broken) -> None:
    printed = (await ada.ordered_now("--print", "--json")).json
    assert connects(printed["address"])
    boot = await ada.on_machine("cat /proc/sys/kernel/random/boot_id; systemctl reboot --no-block")

    async def is_back() -> bool | Pending[bool]:
        ran = await ada.command.run("instance", "exec", ada.user, "cat /proc/sys/kernel/random/boot_id", *ASKED)
        return True if ran.exit_code == 0 and ran.stdout not in boot else Pending(ran.stderr)

    await until(is_back, what="the machine", timeout_s=120, every_s=1)
    await ada.on_machine(f"{ASK}; {ASK}")
    assert await ada.is_closed() is True
    assert not connects(printed["address"])
    spent = json.loads(await ada.on_machine("cat /etc/hermes-node/break-glass-spent.json"))
    assert printed["order"] in spent
