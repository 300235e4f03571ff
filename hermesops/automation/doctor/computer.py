"""Checks this computer's programs, extras, rights and free resources. Changes nothing."""

import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from shlex import join

from hermesops.base.extras import Extra, install_command, missing_extras
from hermesops.errors import Hint, RefusedError
from hermesops.localcloud.drivers.nspawn.computer import resources
from hermesops.model.check import Check, Verdict
from hermesops.settings.fields import Settings

_ALWAYS = {"ssh-keygen": "openssh-client"}
_LOCAL = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
}
"""Programs and the Debian packages that bring them."""


def check_computer(extras: Collection[Extra], *, runs_machines: bool) -> list[Check]:
    """Check programs, extras and rights.

    Args:
        extras: That the environment needs.
        runs_machines: Whether local machines shall run here.
    """
    checks = [_python(), _extras(extras), *_programs(_ALWAYS)]
    if runs_machines:
        checks += [_root(), *_programs(_LOCAL)]
    return [*checks, _pulumi()]


def needed_extras(settings: Settings, *, runs_machines: bool) -> frozenset[Extra]:
    """Extras that commands of an environment need, by its settings. Pure.

    Args:
        runs_machines: Whether local machines shall run here.
    """
    needed = {
        Extra.AWS: bool(settings.platform.account),
        Extra.BILLING: bool(settings.billing.prices),
        Extra.BUILD: runs_machines,
        Extra.LOCAL: runs_machines,
        Extra.ROLES: runs_machines,
    }
    return frozenset(extra for extra, is_needed in needed.items() if is_needed)


def _extras(needed: Collection[Extra]) -> Check:
    missing = missing_extras()
    lists = {"installed": [extra for extra in Extra if extra not in missing], "missing": missing}
    text = "; ".join(f"{title}: {', '.join(extras) or 'none'}" for title, extras in lists.items())
    if lacking := [extra for extra in missing if extra in needed]:
        return Check("extras", Verdict.WARNING, text, Hint(f"run: {join(install_command(*lacking))}"))
    return Check("extras", Verdict.OK, text)


def free_room(machines: int, figures: object) -> str:
    """Free resources for machines on this computer, as text.

    Args:
        machines: How many more would boot.
        figures: Free resources, as text.

    Raises:
        RefusedError: It is too little for one more.
    """
    if machines:
        return f"{machines} more machines: {figures}"
    raise RefusedError(
        f"no more machines: {figures}",
        hint="terminate an instance, free the scarce resource, or have fs.inotify.max_user_instances raised",
    )


async def room_of(world: Path) -> str:
    """Free resources for machines of a local world on this computer; raises as ``free_room``."""
    existing = next(place for place in (world, *world.parents) if place.exists())
    free = resources.free_resources(existing, [])
    return free_room(free.machines, free)


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("python", Verdict.OK, version)
    return Check("python", Verdict.FAILED, version, Hint("install Python 3.11, 3.12 or 3.13"))


def _programs(packages: Mapping[str, str]) -> list[Check]:
    return [
        Check(program, Verdict.OK, path)
        if (path := shutil.which(program, path=_search_path()))
        else Check(program, Verdict.FAILED, "not found", Hint(f"apt-get install {package}"))
        for program, package in packages.items()
    ]


def _search_path() -> str:
    # sbin has root's tools and is not on every user's PATH.
    return os.pathsep.join([os.defpath, "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"])


def _root() -> Check:
    if os.geteuid() == 0:
        return Check("root", Verdict.OK, "uid 0")
    return Check("root", Verdict.FAILED, f"uid {os.geteuid()}", Hint("local machines need root: run it with sudo -E"))


def _pulumi() -> Check:
    path = shutil.which("pulumi", path=_search_path())
    if path:
        return Check("pulumi", Verdict.OK, path)
    return Check("pulumi", Verdict.UNKNOWN, "no CLI; the embedded engine is used outside production")
