"""Ids that cannot be mistaken for one another, and the names that are built from them."""

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
"""The one place where the vendor lets us write whose a machine is; see ``machine_name``."""

_ALIAS = re.compile(r"[a-z][a-z0-9-]{0,30}")
_MACHINE_NAME = re.compile(r"hermes-(?P<environment>[a-z0-9]+)-(?P<cell>[a-z0-9-]+)-(?P<key>[0-9a-f]{12})")

_USERS = UUID("6f8d3c1a-5b1e-4a52-9d5c-0d7f5e0f8a11")
"""Namespace of user ids that were made from an alias because Helium had not named one."""


def is_alias(text: str) -> bool:
    """Whether ``text`` can stand for a user on the command line, besides a UUID."""
    return _ALIAS.fullmatch(text) is not None


def user_id_of(text: str) -> UserId | None:
    """The user id that ``text`` is, if it is a UUID."""
    try:
        return UserId(str(UUID(text)))
    except ValueError:
        return None


def user_id_from_alias(alias: str) -> UserId:
    """A stable user id for an alias, for environments without Helium's user table."""
    return UserId(str(uuid5(_USERS, alias)))


def instance_subject(instance_id: InstanceId) -> str:
    """What is leased while an instance is worked on, and what the audit calls it; hermes-node reads it too."""
    return f"instance/{instance_id}"


def machine_name(environment: str, cell: CellName, instance_id: InstanceId) -> MachineName:
    """The name a new machine of an instance gets: unique for the attempt, readable in the vendor's list.

    Args:
        environment: Name of the environment; its dashes are dropped.
        cell: The cell whose stack holds the machine.
        instance_id: Whose machine it will be; a replacement machine passes the operation's id instead.
    """
    return MachineName(f"hermes-{environment.replace('-', '')}-{cell}-{instance_id.replace('-', '')[:12]}")


def is_machine_name(name: str, environment: str) -> bool:
    """Whether a name in the vendor's list is of our scheme and of this environment."""
    match = _MACHINE_NAME.fullmatch(name)
    return match is not None and match["environment"] == environment.replace("-", "")


def cell_in_name(name: str) -> CellName | None:
    """The cell that a machine's name says it was made for; ``None`` when the name is not of our scheme."""
    match = _MACHINE_NAME.fullmatch(name)
    return CellName(match["cell"]) if match else None
