"""Whether this computer can do what hermesops needs of it: programs, rights, room, and the vendor's answer.

It only looks. What it finds missing it says with the command that mends it.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from hermesops.model.check import Check, Verdict

_ALWAYS = {"ssh-keygen": "openssh-client"}
_LOCAL = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
}
"""Programs and the Debian packages that bring them."""

_LOCAL_FREE_GIB = 5
_MACHINE_INOTIFY = 4
"""Inotify instances a local machine takes of root's, with the base's masked units (measured; 8 without)."""


def check_computer(*, local: bool, folder: Path) -> list[Check]:
    """Check programs, rights and room.

    Args:
        local: Whether machines shall run on this computer.
        folder: Where the environment keeps its state; its disk is looked at.
    """
    found = [_python(), *_programs(_ALWAYS)]
    if local:
        found += [_root(), *_programs(_LOCAL), _room(folder), _inotify()]
    found.append(_pulumi())
    return found


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("python", Verdict.OK, version)
    return Check("python", Verdict.FAILED, version, "install Python 3.11, 3.12 or 3.13")


def _programs(packages: Mapping[str, str]) -> list[Check]:
    return [
        Check(program, Verdict.OK, path)
        if (path := shutil.which(program, path=_search_path()))
        else Check(program, Verdict.FAILED, "not found", f"apt-get install {package}")
        for program, package in packages.items()
    ]


def _search_path() -> str:
    # sbin is not on every user's PATH, and root's tools live there.
    return os.pathsep.join([os.defpath, "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"])


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", Verdict.OK, "uid 0")
    return Check("root", Verdict.FAILED, f"uid {os.geteuid()}", "local machines need root: run it with sudo -E")


def _room(folder: Path) -> Check:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(existing).free // 1024**3
    if free >= _LOCAL_FREE_GIB:
        return Check("disk", Verdict.OK, f"{free} GiB free at {existing}")
    return Check(
        "disk", Verdict.FAILED, f"{free} GiB free at {existing}", f"local machines want {_LOCAL_FREE_GIB} GiB or more"
    )


def _inotify() -> Check:
    """Count root's inotify instances, the first thing local machines run out of."""
    try:
        limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
        used = _inotify_used()
    except OSError as error:
        return Check("inotify", Verdict.UNKNOWN, str(error))
    machines = max(0, limit - used) // _MACHINE_INOTIFY
    seen = f"{used} of {limit} instances used; room for {machines} more machines"
    if machines:
        return Check("inotify", Verdict.OK, seen)
    return Check("inotify", Verdict.FAILED, seen, "terminate an instance, or have fs.inotify.max_user_instances raised")


def _inotify_used() -> int:
    count = 0
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        try:
            for descriptor in descriptors.iterdir():
                count += str(descriptor.readlink()) == "anon_inode:inotify"
        except OSError:
            continue  # the process has ended, or is another user's
    return count


def _pulumi() -> Check:
    path = shutil.which("pulumi", path=_search_path())
    if path:
        return Check("pulumi", Verdict.OK, path)
    return Check("pulumi", Verdict.UNKNOWN, "no CLI; the embedded engine is used outside production")
