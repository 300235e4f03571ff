"""``volume``: the place of its user's data on a machine, and whether it may be used.

Where a file system is mounted there already, that is used. Where the machine's order names a size, and role
``hermes_data`` has been here, an encrypted one is made and opened with a key that the platform gives this machine at
each boot. Everywhere else it is a folder of the machine's own disk.
"""

import json
from enum import StrEnum
from typing import Any

from hermesops.node.errors import NodeError, NotReadyError
from hermesops.node.instance import fencing_token
from hermesops.node.machine import Machine
from hermesops.node.protocol import DATA_PATH, GB, FencingToken
from hermesops.node.system.data_volume.luks import Room
from hermesops.node.system.data_volume.size import wanted_gb, with_gb
from hermesops.node.system.files import Access
from hermesops.node.system.platform_client import installed

_PRIVATE = Access(0o600)
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_LOOK_S = 2.0
"""Between two looks for the machine's certificate, which is a file."""

_OPENING_S = 60.0
_GLANCE_S = 0.2
_KEY_BYTES = 32
_OPENING = "it is being opened"


class Kind(StrEnum):
    """What holds the data."""

    OPEN = "open"
    """A file system of its own."""

    CLOSED = "closed"
    """One that is not there yet: nothing may read or write in its place."""

    PLAIN = "plain"
    """A folder of the machine's own disk."""


def kind(machine: Machine, room: Room) -> Kind:
    """What holds the data of this machine's user."""
    if room.is_mounted:
        return Kind.OPEN
    layout = machine.layout
    if machine.files.read(layout.data_unit) is None or machine.files.read(layout.container) is not None:
        return Kind.PLAIN
    return Kind.CLOSED if _wanted(machine) or machine.volumes.exists(layout.data_file) else Kind.PLAIN


def told(machine: Machine) -> dict[str, Any] | None:
    """What ``status`` says of it; nothing where no role has been applied, whatever state files are in."""
    try:
        room = machine.volumes.look(machine.layout.home(DATA_PATH))
        found = kind(machine, room)
        return {
            "kind": found,
            "encrypted": room.is_encrypted,
            "wanted_gb": _wanted(machine),
            "size": room.size,
            "used": room.used,
            "why": _why(machine) if found is Kind.CLOSED else "",
        }
    except NodeError:
        return None


def refuse_closed(machine: Machine) -> None:
    """Go on only where the data of this machine's user is.

    Raises:
        NotReadyError: It is not, and why.
    """
    if kind(machine, machine.volumes.look(machine.layout.home(DATA_PATH))) is Kind.CLOSED:
        raise NotReadyError(f"the data volume is closed: {_why(machine)}")


def await_open(machine: Machine) -> None:
    """Go on once the data are where they belong: whoever just got a certificate gets the key a moment later.

    Raises:
        NotReadyError: They are not within a minute, and why.
    """
    deadline = machine.system.monotonic() + _OPENING_S
    while True:
        try:
            return refuse_closed(machine)
        except NotReadyError:
            if machine.system.monotonic() >= deadline:
                raise
        machine.system.sleep(_GLANCE_S)


def open_volume(machine: Machine) -> dict[str, Any]:
    """Have the data where it belongs; waits for the platform for as long as it takes.

    Whoever starts before this ends writes into the folder below. Why it waits is for ``status`` to say.
    """
    place, file = machine.layout.home(DATA_PATH), machine.layout.data_file
    pause_s = _FIRST_PAUSE_S
    while kind(machine, machine.volumes.look(place)) is Kind.CLOSED:
        try:
            with machine.files.locked(machine.layout.data_lock):
                key = _key(machine)
                _say(machine, _OPENING)
                machine.volumes.open_volume(file, place, key, _wanted(machine) * GB)
        except NodeError as error:
            _say(machine, str(error))
            if machine.files.read(machine.layout.machine_certificate) is None:
                pause_s = _FIRST_PAUSE_S
                machine.system.sleep(_LOOK_S)
                continue
            machine.system.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    try:
        machine.volumes.fill_volume()
    except NodeError as error:  # the data are there: that there is no more room for them keeps nobody from using them
        return {**(told(machine) or {}), "why": str(error)}
    return told(machine) or {}


def close_volume(machine: Machine) -> dict[str, Any]:
    """Take the data away and forget the key; for the end of a boot, after everything that uses them.

    Raises:
        NotReadyError: Something uses it.
    """
    if machine.files.read(machine.layout.container) is None and machine.volumes.exists(machine.layout.data_file):
        machine.volumes.close_volume(machine.layout.home(DATA_PATH))
    return told(machine) or {}


def want(machine: Machine, gigabytes: int, *, lease: FencingToken | None = None) -> dict[str, Any]:
    """Have the volume be larger from the next boot on. None becomes smaller, and a folder stays a folder.

    Raises:
        OutrankedError: The lease was taken over.
    """
    path = machine.layout.variables
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        variables = machine.files.read(path) or b""
        if wanted_gb(variables) > 0 and gigabytes > 0:
            machine.files.write_if_changed(path, with_gb(variables, gigabytes), _PRIVATE)
    return told(machine) or {}


def _key(machine: Machine) -> bytes:
    volume = machine.volumes.identify(machine.layout.data_file)
    credential, own = installed(machine.files.read, machine.layout)
    key = machine.ask_platform(credential, own, "GET", f"/v1/data-key/{volume}")
    if len(key) < _KEY_BYTES:
        raise NotReadyError(f"the platform gives no key for data volume {volume}")
    return key


def _wanted(machine: Machine) -> int:
    return wanted_gb(machine.files.read(machine.layout.variables) or b"")


def _say(machine: Machine, why: str) -> None:
    machine.files.write_if_changed(machine.layout.data_told, json.dumps({"why": why}).encode(), _PRIVATE)


def _why(machine: Machine) -> str:
    data = machine.files.read(machine.layout.data_told)
    return str(json.loads(data)["why"]) if data else "hermes-data.service has not begun to open it"
