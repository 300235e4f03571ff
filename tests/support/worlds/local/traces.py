"""What a world of local machines has left on this computer, found by its tag and folder, never by a process's name."""

import json
import subprocess
from pathlib import Path

from hermesops.localcloud.drivers.nspawn.world_lock import tag_of


def traces(state: Path) -> list[str]:
    """Everything of a world that is not a file below its folder: groups, links, namespaces, tables, mounts, loops."""
    name = f"lc{tag_of(state)}"
    left = [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{name}*")]
    left += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"{name}*")]
    links = json.loads(_printed("ip", "-j", "link", "show"))
    left += [f"link {link['ifname']}" for link in links if link["ifname"].startswith(name)]
    left += [f"namespace {path.name}" for path in Path("/run/netns").glob(f"{name}*")]
    left += [f"table {line}" for line in _printed("nft", "list", "tables").splitlines() if name in line]
    left += [f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if str(state) in line]
    left += [f"loop {line}" for line in _printed("losetup", "-a").splitlines() if str(state) in line]
    left += [f"nspawn {path}" for path in Path("/run/systemd/nspawn").glob(f"propagate/{name}*")]
    left += [
        f"route {line}" for line in _printed("ip", "-4", "route", "show", "table", "all").splitlines() if name in line
    ]
    return left


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
