"""A world's identity on this computer: the tag in all its names, its subnet, and the lock of its one owner."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.localcloud.drivers.nspawn.computer.network import pick_subnet, subnet_of_gateway, subnets_in_use
from hermesops.localcloud.server.process import try_lock
from hermesops.localcloud.world.files import read_object, write_object

_TAG_LENGTH = 6


@dataclass(frozen=True)
class Identity:
    """A world's name on this computer.

    Attributes:
        name: Prefix of its links, namespaces, control groups and firewall table; machines append ``-NUMBER``.
        subnet: Its addresses, recorded so that machines keep theirs.
    """

    name: str
    subnet: IPv4Network


def tag_of(state: Path) -> str:
    """The tag of a world's folder: six hex digits of its path's hash, so that two worlds never share a kernel name."""
    return hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:_TAG_LENGTH]


def identify(state: Path, *, forgiving: bool = False) -> Identity:
    """Read the world's identity, or choose it: a subnet that nothing on this computer uses.

    Args:
        forgiving: Ignore a damaged record; for a world that is about to be removed.

    Raises:
        BrokenInvariantError: The record is damaged.
    """
    path = state / "driver.json"
    tag, hint = tag_of(state), Hint("remove the world:", ("local", "down", "--purge"))
    name = f"lc{tag}"
    with _alone_on_this_computer():
        try:
            raw = read_object(path, hint=hint)
            if raw is not None and raw.get("tag") == tag:
                return Identity(name, IPv4Network(str(raw["subnet"])))
        except BrokenInvariantError:
            if not forgiving:
                raise
        except (KeyError, ValueError) as error:
            if not forgiving:
                raise BrokenInvariantError(f"{path} is damaged: {error}", hint=hint) from error
        subnet = subnet_of_gateway(name) or pick_subnet(tag, subnets_in_use())
        write_object(path, {"tag": tag, "subnet": str(subnet)})
        return Identity(name, subnet)


@contextmanager
def _alone_on_this_computer() -> Iterator[None]:
    """Hold a lock of this computer: two worlds must not pick the same subnet. A lock on a folder leaves no file."""
    descriptor = os.open("/run", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Ownership:
    """One process at a time drives a world; the kernel releases the lock of a dead one."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._descriptor: int | None = None

    def take(self) -> None:
        """Become the owner.

        Raises:
            RefusedError: Another process is the owner.
        """
        if self._descriptor is not None:
            return
        descriptor = os.open(self._state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not try_lock(descriptor):
            os.close(descriptor)
            raise RefusedError(
                f"another process drives the local world in {self._state}", hint=Hint(("local", "status"))
            )
        self._descriptor = descriptor

    def give_up(self) -> None:
        """Release the world for other processes."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
