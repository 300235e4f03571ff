"""Writes files for the first boot into the disk of a machine that is not running, without ever leaving that disk.

A link in an image (``/etc/justavps -> /etc``) must not lead the host's root astray, so every step refuses links.
"""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import DAEMON_PORT, MachinePlan

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


DAEMON_SETTINGS = "/etc/justavps/daemon.json"
_BOOTSTRAPPED = "/var/lib/justavps/bootstrapped"
_INIT_SCRIPT = "/etc/justavps/init.sh"


@contextmanager
def _parent(root: Path, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    parts = PurePosixPath(path).parts
    if len(parts) < 2 or parts[0] != "/" or ".." in parts:  # noqa: PLR2004 - the root and a name
        raise RefusedError(f"{path} is not an absolute path to a file")
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[1:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    # Hidden folders hold keys (.ssh), and sshd refuses them when others may look in.
                    os.mkdir(part, 0o700 if part.startswith(".") else 0o755, dir_fd=folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    except NotADirectoryError as error:
        raise RefusedError(f"{path} leads through a link or a file on the machine's disk") from error
    finally:
        os.close(folder)


def write(root: Path, path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file below ``root``, owned by root; an existing file or link of the name is replaced.

    Raises:
        RefusedError: A folder on the way is a link or no folder.
    """
    with _parent(root, path, make=True) as (folder, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        descriptor = os.open(name, _NEW_FILE, mode, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as sink:
            sink.write(data)
            os.fchmod(descriptor, mode)


def ensure_folder(root: Path, path: str) -> None:
    """Make sure that a folder is below ``root``.

    Raises:
        RefusedError: It, or a folder on the way, is a link or no folder.
    """
    with _parent(root, path, make=True) as (folder, name):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        os.close(os.open(name, _FOLDER, dir_fd=folder))


def read(root: Path, path: str) -> bytes:
    """A file below ``root``.

    Raises:
        RefusedError: It is missing, or the way to it leads through a link.
    """
    try:
        with _parent(root, path, make=False) as (folder, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as source:
                return source.read()
    except OSError as error:
        raise RefusedError(f"{path} cannot be read on the machine's disk: {error.strerror}") from error


def remove(root: Path, path: str) -> None:
    """Remove one file below ``root``; absent is success."""
    with contextlib.suppress(FileNotFoundError), _parent(root, path, make=False) as (folder, name):
        os.unlink(name, dir_fd=folder)


def remove_tree(path: Path) -> None:
    """Remove a folder of ours and all below it; absent is success."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


def personalise(root: Path, plan: MachinePlan, *, machine_id: str, address: IPv4Address, broker: IPv4Address) -> None:
    """Give a mounted disk that machine's identity, in place of an image's earlier one.

    Machine-id is always given: an uninitialised one means "first boot" to systemd, which then enables every unit.
    """
    hosts = f"127.0.0.1 localhost\n127.0.1.1 {plan.hostname}\n::1 localhost ip6-localhost\n"
    daemon = {"address": str(address), "port": DAEMON_PORT, "broker": str(broker), "token": plan.daemon_token}
    write(root, "/etc/machine-id", f"{machine_id}\n".encode(), mode=0o444)
    write(root, "/etc/hostname", f"{plan.hostname}\n".encode(), mode=0o644)
    write(root, "/etc/hosts", hosts.encode(), mode=0o644)
    write(root, DAEMON_SETTINGS, json.dumps(daemon).encode())
    remove(root, _BOOTSTRAPPED)
    remove(root, _INIT_SCRIPT)
    if plan.init_script:
        write(root, _INIT_SCRIPT, plan.init_script.encode())
    else:
        write(root, _BOOTSTRAPPED, b"", mode=0o644)
    for path, data in plan.files.items():
        write(root, path, data)
