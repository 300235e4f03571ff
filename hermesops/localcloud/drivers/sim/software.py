"""What is on every simulated machine before anybody has changed it: what the roles of ``hermes-base`` leave behind.

It holds as much of that as hermes-node reads, and no more; the real thing is in the roles.
"""

import json
import stat
from collections.abc import Mapping

from hermesops.localcloud.drivers.sim.store import Entry
from hermesops.model.route import ROUTES
from hermesops.node.instance.agent.installation import BACKUP_USER
from hermesops.node.instance.settings import ADAPTER_OF
from hermesops.node.protocol import PROGRAM

UNIT = "hermes-gateway.service"
USER, UID = "hermes", 990
HOME = "/var/lib/hermes"
PORT = 8642
AGENT_VERSION = "0.19.0"
_RELEASE = f"{AGENT_VERSION}-simulated"

_GATEWAY = {
    "unit": UNIT,
    "user": USER,
    "home": HOME,
    "port": PORT,
    "routes": [{"name": route.name, "context_tokens": route.context_tokens} for route in ROUTES],
    "adapters": sorted(filter(None, set(ADAPTER_OF.values()))),
    "config": {},
    "environment": {},
    "user_config": {"_config_version": 33},
}


def _file(content: str, *, mode: int = 0o644, uid: int = 0) -> Entry:
    return Entry(stat.S_IFREG | mode, uid, uid, content.encode())


def _folder(*, mode: int = 0o755, uid: int = 0) -> Entry:
    return Entry(stat.S_IFDIR | mode, uid, uid, b"")


BASE: Mapping[str, Entry] = {
    "/etc": _folder(),
    "/etc/hermes": Entry(stat.S_IFDIR | 0o750, 0, UID, b""),
    "/etc/hermes-node": _folder(mode=0o700),
    "/etc/hermes-node/gateway.json": _file(json.dumps(_GATEWAY, sort_keys=True, indent=1) + "\n", mode=0o600),
    "/etc/systemd": _folder(),
    "/etc/systemd/system": _folder(),
    f"/etc/systemd/system/{UNIT}": _file("[Unit]\nDescription=Hermes Agent gateway, simulated\n[Service]\n"),
    "/etc/os-release": _file('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="a simulated machine"\n'),
    "/opt": _folder(),
    "/opt/hermes": _folder(),
    "/opt/hermes/current": Entry(stat.S_IFLNK | 0o777, 0, 0, f"releases/{_RELEASE}".encode()),
    "/opt/hermes/node": _folder(),
    PROGRAM: _file("a simulated machine runs hermes-node without a file\n", mode=0o755),
    f"/opt/hermes/releases/{_RELEASE}": _folder(),
    f"/opt/hermes/releases/{_RELEASE}/release.json": _file(
        json.dumps({"id": _RELEASE, "hermes_agent": AGENT_VERSION, "origin": "simulated"})
    ),
    "/root": _folder(mode=0o700),
    "/run": _folder(),
    "/run/hermes-node": _folder(mode=0o700),
    "/srv": _folder(),
    "/tmp": _folder(mode=0o1777),  # noqa: S108 - a machine's own
    "/usr": _folder(),
    "/var": _folder(),
    "/var/lib": _folder(),
    HOME: _folder(mode=0o700, uid=UID),
}
"""Names of the base, by absolute path."""

ACCOUNTS: Mapping[str, int] = {"root": 0, USER: UID, BACKUP_USER: UID + 1}
"""Users of a simulated machine."""
