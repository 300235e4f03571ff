"""What is written into a machine's disk before its first boot: who it is, its daemon's settings, its orders."""

import json
from ipaddress import IPv4Address
from pathlib import Path

from hermesops.localcloud.drivers.interface import DAEMON_PORT, MachinePlan
from hermesops.localcloud.drivers.nspawn.disks import guest_files

DAEMON_SETTINGS = "/etc/justavps/daemon.json"
_BOOTSTRAPPED = "/var/lib/justavps/bootstrapped"
_INIT_SCRIPT = "/etc/justavps/init.sh"


def personalise(root: Path, plan: MachinePlan, *, machine_id: str, address: IPv4Address, broker: IPv4Address) -> None:
    """Make a mounted disk that machine's own; an image's earlier identity is overwritten.

    Machine-id is always given: an uninitialised one means "first boot" to systemd, which then enables every unit.
    """
    hosts = f"127.0.0.1 localhost\n127.0.1.1 {plan.hostname}\n::1 localhost ip6-localhost\n"
    daemon = {"address": str(address), "port": DAEMON_PORT, "broker": str(broker), "token": plan.daemon_token}
    guest_files.write(root, "/etc/machine-id", f"{machine_id}\n".encode(), mode=0o444)
    guest_files.write(root, "/etc/hostname", f"{plan.hostname}\n".encode(), mode=0o644)
    guest_files.write(root, "/etc/hosts", hosts.encode(), mode=0o644)
    guest_files.write(root, DAEMON_SETTINGS, json.dumps(daemon).encode())
    guest_files.remove(root, _BOOTSTRAPPED)
    guest_files.remove(root, _INIT_SCRIPT)
    if plan.init_script:
        guest_files.write(root, _INIT_SCRIPT, plan.init_script.encode())
    else:
        guest_files.write(root, _BOOTSTRAPPED, b"", mode=0o644)
    for path, data in plan.files.items():
        guest_files.write(root, path, data)


def forget_secrets(layer: Path) -> None:
    """Take out of a copied disk what only the vendor knows of; the rest is the image builder's business."""
    guest_files.remove(layer, DAEMON_SETTINGS)


def daemon_settings(root: Path) -> bytes:
    """What the vendor's daemon on a mounted disk goes by."""
    return guest_files.read(root, DAEMON_SETTINGS)


def give_daemon_settings(root: Path, settings: bytes) -> None:
    """Put back what ``forget_secrets`` took out."""
    guest_files.write(root, DAEMON_SETTINGS, settings)
