"""One machine on this computer: started by its keeper, observed, signalled, taken down to nothing but files."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from shlex import quote

from hermesops.base.waiting import pause_blocking
from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.localcloud.drivers.nspawn.computer.cgroup import MachineGroup
from hermesops.localcloud.drivers.nspawn.computer.command import holds_within
from hermesops.localcloud.drivers.nspawn.computer.network import Network
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk
from hermesops.localcloud.drivers.nspawn.store import MachineRecord

REBOOT = 133
"""Exit code of systemd-nspawn when the machine asked for a reboot. Source: systemd-nspawn(1), --keep-unit."""

_SCRIPT = """#!/bin/sh
# Keeper of {name}. It joins the machine's control groups before nspawn starts, which makes them its identity.
for group in {groups}; do echo $$ > "$group/cgroup.procs" || exit 1; done
exec >>{home}/console.log 2>&1
while :; do
{wiring}
  SYSTEMD_NSPAWN_API_VFS_WRITABLE=network \\
  systemd-nspawn --register=no --keep-unit --boot --quiet -D {root} --machine={name} --uuid={machine_id} \\
    --console=read-only --network-namespace-path=/run/netns/{name} --capability=CAP_NET_ADMIN --resolv-conf=off \\
    --timezone=off --link-journal=no </dev/null
  code=$?
  echo $code > {home}/exit.new && mv {home}/exit.new {home}/exit
  [ $code -eq {reboot} ] || exit 0
done
"""


_HALT = signal.SIGRTMIN + 4
_REBOOT_NOW = signal.SIGRTMIN + 15
_CLEAN_STOP_S = 10.0
_REBOOT_S = 5.0
_KEEPER_S = 2.0
_TICK_S = 0.05
_POLL_S = 0.01
_PROPAGATE = Path("/run/systemd/nspawn/propagate")


def launch(*, name: str, home: Path, machine_id: str, group: MachineGroup, wiring: str) -> None:
    """Start the keeper in a session of its own; returns at once, the machine boots behind it.

    Raises:
        UnavailableError: The shell could not be started.
    """
    script = _SCRIPT.format(
        name=quote(name),
        home=quote(str(home)),
        root=quote(str(home / "root")),
        machine_id=quote(machine_id),
        groups=" ".join(quote(str(folder)) for folder in group.folders),
        wiring=wiring,
        reboot=REBOOT,
    )
    path = home / "keeper.sh"
    path.write_text(script, encoding="utf-8")
    (home / "exit").unlink(missing_ok=True)
    try:
        # setsid --fork: the keeper has no parent of ours, so that neither our end nor a hangup ends it.
        subprocess.run(
            ["setsid", "--fork", "sh", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            cwd="/",
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"the keeper of {name} did not start: {error}") from error


def known_to_nspawn(prefix: str) -> set[str]:
    """Names of machines of which systemd-nspawn has left an empty folder under /run."""
    return {entry.name for entry in _PROPAGATE.glob(f"{prefix}*")}


def forget_nspawn(name: str) -> None:
    """Remove such a folder; absent is success."""
    with contextlib.suppress(OSError):
        (_PROPAGATE / name).rmdir()


class Machine:
    """One machine; every method may be repeated, and observes before it acts.

    Args:
        name: Its name in the kernel: link, namespace and control group.
    """

    def __init__(
        self, record: MachineRecord, *, name: str, home: Path, layers_root: Path, group: MachineGroup, network: Network
    ) -> None:
        self.record = record
        self.name = name
        self.group = group
        self.disk = Disk(home)
        self._home = home
        self._layers_root = layers_root
        self._network = network

    def mount(self) -> None:
        """Mount its disk over base, vendor's layer and image.

        Raises:
            BrokenInvariantError: A layer that it uses is gone.
        """
        layers = [Path(self.record.base), Path(self.record.vendor)]
        layers += [self._layers_root / layer for layer in self.record.layers]
        for layer in layers:
            if not layer.is_dir():
                raise BrokenInvariantError(f"machine {self.record.id} needs {layer}, which is missing")
        self.disk.mount(layers, cwd=self._layers_root)

    def boot(self) -> None:
        """Start it; returns once the boot has started. Does nothing for a running machine."""
        if self.group.pids():
            return
        self.take_down()
        self.mount()
        self.set_off()

    def set_off(self) -> None:
        """Start a mounted machine of which nothing else is left from before."""
        self.disk.volume.open()
        self.group.create(memory_mib=self.record.memory_mib, vcpu=self.record.vcpu)
        self._network.admit(self.name, self.record.number)
        launch(
            name=self.name,
            home=self._home,
            machine_id=self.record.machine_id,
            group=self.group,
            wiring=self._network.wiring(self.name, self.record.number),
        )
        if not holds_within(lambda: bool(self.group.pids()), _KEEPER_S, every_s=_POLL_S):
            raise UnavailableError(f"the keeper of machine {self.record.id} ended at once: {self.last_words()}")

    def take_down(self) -> None:
        """End it by force and leave nothing of it but files."""
        self.group.kill()
        self.disk.unmount()
        self._network.unwire(self.name)
        self._network.expel(self.name, self.record.number)
        self.group.remove()
        forget_nspawn(self.name)
        with contextlib.suppress(FileNotFoundError):
            (self._home / ".#root.lck").unlink()

    def stop(self) -> None:
        """Shut it down as a power button does; by force after ten seconds."""
        waited = 0.0
        while self.group.pids() and waited < _CLEAN_STOP_S:
            # Repeated, because a first process that has no handlers yet loses the signal.
            if round(waited, 2) % 1 == 0:
                self._signal(_HALT)
            pause_blocking(_TICK_S)
            waited += _TICK_S
        self.take_down()

    def reboot(self) -> None:
        """Reset it: no unit is stopped. Returns once the new boot is on its way."""
        before = self.group.leader()
        if before is None or not self._signal(_REBOOT_NOW):
            self.boot()
            return
        if not holds_within(lambda: self.group.leader() not in (before, None), _REBOOT_S, every_s=_POLL_S):
            # The signal came too early, or the keeper is gone: kill the machine and start it again.
            self.take_down()
            self.boot()

    def _signal(self, number: int) -> bool:
        leader = self.group.leader()
        if leader is None:
            return False
        try:
            handle = os.pidfd_open(leader)
        except ProcessLookupError:
            return False
        try:
            if self.group.leader() != leader:  # the number may belong to another process by now
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def last_words(self) -> str:
        """The last line of its console, for an error message."""
        try:
            lines = (self._home / "console.log").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
