"""A whole computer in QEMU for a test: its own kernel, commands over the guest agent's serial port.

It has no network, or one in which there is nothing but chosen services of this computer's loopback.

It dies with the test run, however that ends, and writes to nothing but disks that a test adds.
"""

import asyncio
import base64
import json
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from hermesops.base.waiting import Pending, until
from hermesops.vendor.channel import Completed
from tests.support.real.ends_with_us import KILLED
from tests.support.real.machines.qemu_image import BootFiles, boot_files
from tests.support.suite.prerequisites import QEMU, has_kvm
from tests.support.worlds.local.left_worlds import remember_folder

_BOOT_S = 400.0  # without KVM and beside other work; with it some ten
_ANSWER_S = 60.0
_SPARE_S = 60.0
_KERNEL_ARGUMENTS = (
    "root=/dev/vda rw console=ttyS0 loglevel=4 panic=-1 mitigations=off net.ifnames=0"
    " systemd.firstboot=off systemd.show_status=off"  # the first asks questions and waits for answers
)
_CONSOLE_TAIL = 4000
_DOOR = "10.0.2.100"
_LINK = (
    "ip link set eth0 up && ip address replace 10.0.2.15/24 dev eth0"
    " && systemd-run --quiet --unit=door socat TCP4-LISTEN:{port},bind=127.0.0.1,fork TCP4:{address}:{port}"
)
_KILLED = 128


class GuestError(AssertionError):
    """The guest did not do what every guest must; carries the end of its console."""


def said_on(console: Path) -> str:
    """What was written to a console."""
    return console.read_text(errors="replace") if console.exists() else ""


@dataclass
class Guest:
    """A computer that runs. Enough of a channel (``run``, ``put``, ``machine_id``) for what asks for one."""

    console: Path
    _process: asyncio.subprocess.Process
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    machine_id: str = "qemu-guest"
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    async def run(
        self,
        command: str,
        *,
        timeout_s: float = 60,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        binary: bool = False,  # noqa: ARG002 - a channel's signature; output is exact here
    ) -> Completed:
        """Run a command for ``/bin/sh`` to its end; the guest kills it after ``timeout_s``."""
        argv = ["timeout", "--signal=KILL", f"{timeout_s:g}"]
        if user != "root":
            argv += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        argv += ["env", f"--chdir={cwd or '/root'}", *(f"{k}={v}" for k, v in (env or {}).items())]
        argv += ["/bin/sh", "-c", command]
        begun = await self._ask(
            "guest-exec",
            {
                "path": "/usr/bin/env",
                "arg": argv,
                "capture-output": True,
                "input-data": base64.b64encode(stdin or b"").decode(),
            },
        )

        async def observe() -> Completed | Pending[Completed]:
            status = await self._ask("guest-exec-status", {"pid": begun["pid"]})
            if not status["exited"]:
                return Pending("it runs")
            code = status.get("exitcode", _KILLED + status.get("signal", 0))
            out, err = (base64.b64decode(status.get(name, "")) for name in ("out-data", "err-data"))
            return Completed(code, out, err, exact=not status.get("out-truncated", False))

        return await until(observe, what=command, timeout_s=timeout_s + _SPARE_S, every_s=0.1)

    async def output(self, command: str, *, timeout_s: float = 60) -> str:
        """What a command prints that must work."""
        done = await self.run(command, timeout_s=timeout_s)
        if done.exit_code:
            raise GuestError(f"{command} ended with {done.exit_code}: {done.text} {done.stderr.decode()}")
        return done.text

    async def put(self, path: str, content: bytes | str, *, mode: int = 0o644) -> None:
        """Write a file of root's, and the folders above it."""
        data = content.encode() if isinstance(content, str) else content
        name = shlex.quote(path)
        done = await self.run(f"mkdir -p $(dirname {name}) && cat >{name} && chmod {mode:o} {name}", stdin=data)
        if done.exit_code:
            raise GuestError(f"{path}: {done.stderr.decode()}")

    async def wait_for_agent(self, timeout_s: float = _BOOT_S) -> None:
        """Wait until the guest has booted far enough to answer."""

        async def observe() -> bool | Pending[bool]:
            if self._process.returncode is not None:
                raise GuestError(f"QEMU ended with {self._process.returncode}:\n{self.said()}")
            number = next(self._numbers)
            try:
                answer = await self._ask("guest-sync", {"id": number}, timeout_s=5)
            except TimeoutError:
                return Pending(self.said()[-_CONSOLE_TAIL:])
            except ConnectionError:  # the next look sees why
                return Pending("QEMU closed its port")
            return answer == number or Pending(f"answer {answer}")

        await until(observe, what="the guest to boot", timeout_s=timeout_s, every_s=0.1)

    def said(self) -> str:
        """What the guest wrote to its console."""
        return said_on(self.console)

    async def _ask(self, execute: str, arguments: dict[str, object], *, timeout_s: float = _ANSWER_S) -> Any:  # noqa: ANN401 - JSON
        async with self._turn, asyncio.timeout(timeout_s):
            self._writer.write(json.dumps({"execute": execute, "arguments": arguments}).encode() + b"\n")
            await self._writer.drain()
            line = await self._reader.readline()
            # Answers to questions that were given up come first; only the first question of all can be one of those.
            while execute == "guest-sync" and line and json.loads(line).get("return") != arguments["id"]:
                line = await self._reader.readline()
        answer = json.loads(line) if line else {"error": "QEMU ended"}
        if "return" not in answer:
            raise GuestError(f"{execute}: {answer['error']}\n{self.said()[-_CONSOLE_TAIL:]}")
        return answer["return"]


@asynccontextmanager
async def booted_guest(
    *,
    memory_mib: int = 1024,
    packages: Sequence[str] = (),
    disks: Sequence[Path] = (),
    reaches: int = 0,
    accelerate: bool | None = None,
) -> AsyncIterator[Guest]:
    """A computer that runs, switched off without a word at the end.

    Args:
        memory_mib: Its memory; it has no swap.
        packages: Debian packages beyond those of the local base.
        disks: Raw images that it sees as ``/dev/vdb``, ``/dev/vdc`` … and writes to for good.
        reaches: A port of this computer's loopback that is the same port of the guest's; needs package ``socat``.
        accelerate: Use KVM; by default where it is there.
    """
    files = await asyncio.to_thread(boot_files, packages)
    kvm = has_kvm() if accelerate is None else accelerate
    folder = Path(tempfile.mkdtemp(prefix="hermesops-guest-"))  # short: a socket's path has at most 107 characters
    remember_folder(folder)
    try:
        process = await asyncio.create_subprocess_exec(
            *_command(files, folder, disks, memory_mib=memory_mib, reaches=reaches, kvm=kvm),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=(folder / "console.log").open("ab"),
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            reader, writer = await _agent_port(folder / "agent", process, folder / "console.log")
            guest = Guest(folder / "console.log", process, reader, writer)
            await guest.wait_for_agent()
            if reaches:
                await guest.output(_LINK.format(address=_DOOR, port=reaches))
            yield guest
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(
    files: BootFiles, folder: Path, disks: Sequence[Path], *, memory_mib: int, reaches: int, kvm: bool
) -> list[str]:
    # What the guest writes to its root goes to a file without a name, which the kernel removes with the process.
    drives = [f"file={files.disk},if=virtio,format=raw,snapshot=on"]
    drives += [f"file={disk},if=virtio,format=raw,cache=writeback" for disk in disks]
    return [
        *(*KILLED, QEMU),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", _network(reaches)),
        *("-machine", "q35", "-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "max", "-smp", "2", "-m", str(memory_mib)),
        *("-kernel", str(files.kernel), "-initrd", str(files.initramfs), "-append", _KERNEL_ARGUMENTS),
        *(word for drive in drives for word in ("-drive", drive)),
        *("-serial", "stdio", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
        *("-chardev", f"socket,path={folder / 'agent'},server=on,wait=off,id=agent"),
        *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
    ]


def _network(port: int) -> str:
    """No other address than the door answers the guest, and behind that is one port of this computer's loopback."""
    if not port:
        return "none"
    door = f"guestfwd=tcp:{_DOOR}:{port}-cmd:socat - TCP4:127.0.0.1:{port}"
    return f"user,model=virtio-net-pci,ipv6=off,restrict=on,{door}"


async def _agent_port(
    path: Path, process: asyncio.subprocess.Process, console: Path
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]  # noqa: N806 - a type

    async def observe() -> Connection | Pending[Connection]:
        if process.returncode is not None:
            raise GuestError(f"QEMU ended with {process.returncode}: {said_on(console)}")
        try:
            return await asyncio.open_unix_connection(str(path), limit=64 << 20)
        except OSError as error:
            return Pending(str(error))

    return await until(observe, what="QEMU to start", timeout_s=_ANSWER_S, every_s=0.05)
