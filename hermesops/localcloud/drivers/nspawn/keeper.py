"""The keeper: a shell loop per machine that outlives the server, starts nspawn and starts it again after a reboot."""

import subprocess
from pathlib import Path
from shlex import quote

from hermesops.errors import UnavailableError
from hermesops.localcloud.drivers.nspawn.computer.cgroup import MachineGroup

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
        # setsid --fork: the keeper belongs to nobody, so that neither our end nor a hangup is its own.
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
