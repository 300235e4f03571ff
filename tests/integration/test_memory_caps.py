"""What the units promise about memory, where a kernel counts it: on a whole computer, the smallest that is sold.

The units, the sandbox and the launcher are the roles' own; in the agent's place runs ``stand_in_gateway``.
"""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.machines.verify.backend import ChannelBackend
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.verification import PROMISES
from tests.support.fakes import stand_in_gateway
from tests.support.real.machines.qemu_guest import Guest, booted_guest
from tests.support.releases.role_files import rendered, verbatim

pytestmark = pytest.mark.qemu

GATEWAY = "hermes-gateway.service"
SLOT = "/opt/hermes/releases/stand-in"
SITE = f"{SLOT}/venv/lib/python3.11/site-packages"
CAP_KIB = 2 << 20
SCRIPT_CAP_KIB = 512 << 10

_TAKE = "taken = bytearray(b'x') * ({mib} << 20)\nprint('had it all', flush=True)"


@pytest.fixture(scope="module")
async def guest() -> AsyncIterator[Guest]:
    """A booted computer with a gateway that runs."""
    smallest = min(kind.ram_gb for kind in SERVER_TYPES.values())
    async with booted_guest(memory_mib=smallest * 1024) as guest:
        await install(guest)
        yield guest


async def install(guest: Guest) -> None:
    """Put on the guest what the roles put on a machine."""
    agent = "hermes_gateway"
    for unit in (GATEWAY, "hermes-sandbox.socket", "hermes-sandbox@.service"):
        await guest.put(f"/etc/systemd/system/{unit}", rendered(agent, f"{unit}.j2"))
    for program in ("hook.py", "enter.py", "serve.py"):
        await guest.put(f"/opt/hermes/sandbox/{program}", verbatim(agent, program))
    await guest.put("/opt/hermes/libexec/hermes-gateway", rendered(agent, "hermes-gateway.sh.j2"), mode=0o755)
    await guest.put("/etc/hermes-node/identity.json", "{}")
    await guest.output(
        "useradd --system --home-dir /var/lib/hermes --shell /usr/sbin/nologin hermes"
        " && install -d -o hermes -g hermes -m 700 /var/lib/hermes"
        f" && python3 -m venv --without-pip {SLOT}/venv && ln -s {SLOT} /opt/hermes/current",
        timeout_s=120,
    )
    await guest.put(f"{SITE}/hermes_cli/main.py", inspect.getsource(stand_in_gateway))
    await guest.put(f"{SITE}/hermes-sandbox.pth", verbatim(agent, "hermes-sandbox.pth"))
    await guest.output(f"systemctl daemon-reload && systemctl start hermes-sandbox.socket {GATEWAY}", timeout_s=120)


async def shown(guest: Guest, *names: str) -> dict[str, str]:
    """What systemd says of the gateway."""
    output = await guest.output(f"systemctl show {GATEWAY} {' '.join(f'-p {name}' for name in names)}")
    return dict(line.split("=", 1) for line in output.splitlines())


async def run_in_terminal(guest: Guest, command: str) -> None:
    """Have the gateway start a command, as the agent's terminal tool does."""
    path = "/var/lib/hermes/command"
    await guest.put(f"{path}.new", command)
    await guest.output(f"mv {path}.new {path}")


async def test_the_kernel_holds_what_the_unit_says(guest: Guest) -> None:
    folder = f"/sys/fs/cgroup/system.slice/{GATEWAY}"
    held = (await guest.output(f"cat {folder}/memory.max {folder}/memory.current")).split()
    assert int(held[0]) == CAP_KIB << 10
    assert 0 < int(held[1]) < CAP_KIB << 10


async def test_verification_says_that_it_is_counted(guest: Guest) -> None:
    (memory,) = (promise for promise in PROMISES if promise.name == "memory")
    loop = asyncio.get_running_loop()
    backend = ChannelBackend(
        guest.machine_id, lambda command: asyncio.run_coroutine_threadsafe(guest.run(command), loop).result(), {}
    )
    output = await asyncio.to_thread(memory.observe, backend.host(), Expected("nobody"))
    assert re.fullmatch(r"2048 MiB \(\d+ MiB used\), 512 tasks", output)


async def test_a_command_that_takes_too_much_is_killed_and_the_machine_lives_on(guest: Guest) -> None:
    booted = await guest.output("cat /proc/sys/kernel/random/boot_id")
    before = await shown(guest, "MainPID", "NRestarts")
    await guest.put("/var/lib/hermes/take.py", _TAKE.format(mib=3072))
    await run_in_terminal(guest, "python3 /var/lib/hermes/take.py")

    async def observe() -> str | Pending[str]:
        journal = await guest.output(f"journalctl --unit {GATEWAY} --output cat --no-pager")
        return journal if "Failed with result" in journal else Pending(journal[-200:])

    journal = await until(observe, what="the kernel's cap", timeout_s=300, every_s=0.5)
    assert "Failed with result 'oom-kill'" in journal
    assert "had it all" not in journal
    (last,) = await oom_kills(guest, GATEWAY)
    assert f"limit {CAP_KIB}kB" in last

    async def is_back() -> dict[str, str] | Pending[dict[str, str]]:
        now = await shown(guest, "ActiveState", "MainPID", "NRestarts")
        return now if now["ActiveState"] == "active" else Pending(str(now))

    after = await until(is_back, what="the gateway to be back", timeout_s=120)
    assert after["MainPID"] != before["MainPID"]
    assert int(after["NRestarts"]) == int(before["NRestarts"]) + 1
    assert await guest.output("cat /proc/sys/kernel/random/boot_id") == booted
    assert await guest.output("systemctl is-active hermes-sandbox.socket qemu-guest-agent.service")


async def oom_kills(guest: Guest, group: str) -> list[str]:
    """What the kernel said of each kill for the memory of a control group."""
    output = await guest.output("dmesg --color=never")
    return [block for block in output.split("invoked oom-killer")[1:] if group in block]


async def run_script(guest: Guest, code: str) -> tuple[int, str]:
    """Run a script as the agent's code-execution tool does; how it ended, and what it said."""
    await guest.put("/var/lib/hermes/script.py", code)
    env = {"HERMES_RPC_SOCKET": "/nowhere", "HOME": "/var/lib/hermes"}
    command = f"{SLOT}/venv/bin/python script.py 2>&1"
    done = await guest.run(command, user="hermes", env=env, cwd="/var/lib/hermes", timeout_s=90)
    return done.exit_code, done.text


async def test_a_script_that_takes_too_much_is_refused_by_its_rlimit(guest: Guest) -> None:
    code, output = await run_script(guest, _TAKE.format(mib=600))
    assert (code, "MemoryError" in output, "had it all" in output) == (1, True, False), output


async def test_a_script_whose_processes_take_too_much_together_is_killed_at_the_cap(guest: Guest) -> None:
    """Each of them stays below the rlimit, so only the kernel's count for all of them can stop them."""
    gateway = await shown(guest, "MainPID")
    small = "import time\n" + _TAKE.format(mib=200) + "\ntime.sleep(20)"
    code = f"import subprocess, sys\nall = [subprocess.Popen([sys.executable, '-c', {small!r}]) for _ in range(4)]\n"
    ended, output = await run_script(guest, code + "print([one.wait() for one in all])")
    kills = await oom_kills(guest, "hermes-sandbox@")
    assert kills, output
    assert all(f"limit {SCRIPT_CAP_KIB}kB" in kill for kill in kills)
    assert ended == 137, output
    assert output.count("had it all") < 4
    assert await shown(guest, "MainPID") == gateway


async def test_a_script_within_its_cap_runs(guest: Guest) -> None:
    assert await run_script(guest, _TAKE.format(mib=200)) == (0, "had it all")
