"""Types of ids, and the names that are built from them."""

import re
from typing import NewType
from uuid import UUID, uuid5

InstanceId = NewType("InstanceId", str)
"""UUID of a row of ``hermes_instances``."""

UserId = NewType("UserId", str)
"""UUID of a Helium user."""

MachineId = NewType("MachineId", str)
"""The vendor's UUID of a machine."""

ImageId = NewType("ImageId", str)
"""The vendor's UUID of an image."""

CellName = NewType("CellName", str)
"""Name of a cell, and of its Pulumi stack."""

OperationId = NewType("OperationId", str)
"""UUID of a row of ``operations``."""

MachineName = NewType("MachineName", str)
"""The only field at the vendor that identifies a machine's owner; see ``machine_name``."""

_ALIAS = re.compile(r"[a-z][a-z0-9-]{0,30}")
_BEGINNING = re.compile(r"[0-9a-f]{8}")
_MACHINE_NAME = re.compile(r"hermes-(?P<environment>[a-z0-9]+)-(?P<cell>[a-z0-9-]+)-(?P<key>[0-9a-f]{12})")
_PLATFORM_NAME = re.compile(r"hermes-(?P<environment>[a-z0-9]+)-platform")

_USERS = UUID("6f8d3c1a-5b1e-4a52-9d5c-0d7f5e0f8a11")
"""Namespace of user ids that are made from an alias, where Helium has none."""


def is_beginning_of_id(text: str) -> bool:
    """Whether a text can be the first part of a UUID, as lists show it."""
    return bool(_BEGINNING.fullmatch(text))


def is_alias(text: str) -> bool:
    """Whether ``text`` can be a user's alias."""
    return _ALIAS.fullmatch(text) is not None


def user_id_of(text: str) -> UserId | None:
    """``text`` as a user id; ``None`` unless it is a UUID."""
    try:
        return UserId(str(UUID(text)))
    except ValueError:
        return None


def user_id_from_alias(alias: str) -> UserId:
    """A stable user id for an alias, for environments without Helium's user table."""
    return UserId(str(uuid5(_USERS, alias)))


def instance_subject(instance_id: InstanceId) -> str:
    """An instance's name in leases and in the audit log; hermes-node reads it too."""
    return f"instance/{instance_id}"


def machine_name(environment: str, cell: CellName, instance_id: InstanceId) -> MachineName:
    """The name of an instance's new machine: unique, and readable in the vendor's list.

    Dashes of the environment's name are dropped. For a replacement machine the operation's id stands in for its
    instance's.
    """
    return MachineName(f"hermes-{environment.replace('-', '')}-{cell}-{instance_id.replace('-', '')[:12]}")


def is_machine_name(name: str, environment: str) -> bool:
    """Whether a name in the vendor's list is of our scheme and of this environment."""
    match = _MACHINE_NAME.fullmatch(name)
    return match is not None and match["environment"] == environment.replace("-", "")


def environment_in_name(name: str) -> str:
    """The environment in a machine's name, without its hyphens; empty when the name is not of our scheme."""
    match = _MACHINE_NAME.fullmatch(name) or _PLATFORM_NAME.fullmatch(name)
    return match["environment"] if match else ""


def platform_machine_name(environment: str) -> MachineName:
    """The name of the machine that the platform's monitoring is on; never an instance's."""
    return MachineName(f"hermes-{environment.replace('-', '')}-platform")


def cell_in_name(name: str) -> CellName | None:
    """The cell in a machine's name; ``None`` when the name is not of our scheme."""
    match = _MACHINE_NAME.fullmatch(name)
    return CellName(match["cell"]) if match else None
