"""``volume``: the place of the user's data on a machine, and whether they may be used.

A file system that is mounted there already is used. Where the machine's order names a size, and role ``hermes_data``
has been applied, an encrypted one is made and opened with a key that the platform gives this machine at each boot.
Everywhere else the data are in a folder of the machine's own disk.
"""

import json
from enum import StrEnum
from typing import Any

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.instance.certificate import installed
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.data_volume import VolumeState, wanted_gb, with_gb
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.errors import NodeError, NotReadyError
from hermesops.wire.protocol import DATA_PATH, GB, FencingToken

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CERTIFICATE_EVERY_S = 2.0
"""Between two checks whether the machine has its certificate, which is a file."""

_OPENING_S = 60.0
_EVERY_S = 0.2
_KEY_BYTES = 32


class Kind(StrEnum):
    """The kind of storage that holds the user's data."""

    OPEN = "open"
    """A file system of its own."""

    CLOSED = "closed"
    """One that is not mounted yet: nothing may read or write in its place."""

    PLAIN = "plain"
    """A folder of the machine's own disk."""


def kind(machine: Machine, state: VolumeState) -> Kind:
    """The kind of storage that holds the data of this machine's user."""
    if state.is_mounted:
        return Kind.OPEN
    layout = machine.layout
    if machine.files.read(layout.data_unit) is None or machine.files.read(layout.container) is not None:
        return Kind.PLAIN
    return Kind.CLOSED if _wanted(machine) or machine.volumes.exists(layout.data_file) else Kind.PLAIN


def show(machine: Machine) -> dict[str, Any] | None:
    """The volume for ``status``; ``None`` if no role has been applied or the files cannot be read."""
    try:
        state = machine.volumes.observe(machine.layout.home(DATA_PATH))
        volume_kind = kind(machine, state)
        return {
            "kind": volume_kind,
            "encrypted": state.is_encrypted,
            "wanted_gb": _wanted(machine),
            "size": state.size,
            "used": state.used,
            "why": _why(machine) if volume_kind is Kind.CLOSED else "",
        }
    except NodeError:
        return None


def is_closed(machine: Machine) -> bool:
    """Whether the data are on a volume that is not mounted yet."""
    return kind(machine, machine.volumes.observe(machine.layout.home(DATA_PATH))) is Kind.CLOSED


def refuse_closed(machine: Machine) -> None:
    """Refuse to use the data where their volume is closed.

    Raises:
        NotReadyError: It is closed; the message has the reason.
    """
    if is_closed(machine):
        raise NotReadyError(f"the data volume is closed: {_why(machine)}")


def await_open(machine: Machine) -> None:
    """Wait until the data volume is open: a machine that just got its certificate gets the key a moment later.

    Raises:
        NotReadyError: It stays closed for a minute; the message has the reason.
    """
    deadline = machine.system.monotonic() + _OPENING_S
    while True:
        try:
            return refuse_closed(machine)
        except NotReadyError:
            if machine.system.monotonic() >= deadline:
                raise
        machine.system.sleep(_EVERY_S)


def open_volume(machine: Machine) -> dict[str, Any]:
    """Mount the data volume; wait for the platform without a time limit, with the reason in ``status``.

    A program that starts before this ends writes into the folder below.
    """
    place, file = machine.layout.home(DATA_PATH), machine.layout.data_file
    pause_s = _FIRST_PAUSE_S
    while kind(machine, machine.volumes.observe(place)) is Kind.CLOSED:
        try:
            with machine.files.locked(machine.layout.data_lock):
                key = _key(machine)
                _write_why(machine, "it is being opened")
                machine.volumes.open_volume(file, place, key, _wanted(machine) * GB)
        except NodeError as error:
            _write_why(machine, str(error))
            if machine.files.read(machine.layout.machine_certificate) is None:
                pause_s = _FIRST_PAUSE_S
                machine.system.sleep(_CERTIFICATE_EVERY_S)
                continue
            machine.system.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    try:
        machine.volumes.fill_volume()
    except NodeError as error:  # the data are there, and can be used although there is no more room
        return {**(show(machine) or {}), "why": str(error)}
    return show(machine) or {}


def close_volume(machine: Machine) -> dict[str, Any]:
    """Unmount the data volume and forget its key; for the end of a boot, after everything that uses it.

    Raises:
        NotReadyError: Something uses it.
    """
    if machine.files.read(machine.layout.container) is None and machine.volumes.exists(machine.layout.data_file):
        machine.volumes.close_volume(machine.layout.home(DATA_PATH))
    return show(machine) or {}


def want(machine: Machine, gigabytes: int, *, lease: FencingToken | None = None) -> dict[str, Any]:
    """Enlarge the volume from the next boot on. It never shrinks, and a folder stays a folder.

    Raises:
        OutrankedError: The lease was taken over.
    """
    path = machine.layout.variables
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        variables = machine.files.read(path) or b""
        if wanted_gb(variables) > 0 and gigabytes > 0:
            machine.files.write_if_changed(path, with_gb(variables, gigabytes), PRIVATE)
    return show(machine) or {}


def _key(machine: Machine) -> bytes:
    volume = machine.volumes.identify(machine.layout.data_file)
    credential, own = installed(machine)
    key = machine.ask_platform(credential, own, "GET", f"/v1/data-key/{volume}", b"")
    if len(key) < _KEY_BYTES:
        raise NotReadyError(f"the platform gives no key for data volume {volume}")
    return key


def _wanted(machine: Machine) -> int:
    return wanted_gb(machine.files.read(machine.layout.variables) or b"")


def _write_why(machine: Machine, why: str) -> None:
    machine.files.write_if_changed(machine.layout.data_state, json.dumps({"why": why}).encode(), PRIVATE)


def _why(machine: Machine) -> str:
    data = machine.files.read(machine.layout.data_state)
    return str(json.loads(data)["why"]) if data else "hermes-data.service has not begun to open it"
