"""Snapshots: images that JustAVPS keeps of one instance's machine, private to that instance.

Whose one is stands in its name, the only thing that JustAVPS lets us write. The registry has no row of it, so nothing
that looks for an image to boot from can find it.
"""

import re

from hermesops.model.ids import InstanceId, OperationId

_NAME = re.compile(r"hermes-(?P<environment>[a-z0-9]+)-snapshot-(?P<instance>[0-9a-f]{32})-[0-9a-f]{12}")


def snapshot_name(environment: str, instance_id: InstanceId, operation_id: OperationId) -> str:
    """The name of the snapshot that an operation makes: who continues it finds what was begun.

    Args:
        environment: Name of the environment; its dashes are dropped.
        instance_id: Whose.
        operation_id: What makes it.
    """
    operation = operation_id.replace("-", "")[:12]
    return f"hermes-{environment.replace('-', '')}-snapshot-{instance_id.replace('-', '')}-{operation}"


def owner_of(name: str, environment: str) -> InstanceId | None:
    """Whose snapshot an image of that name is; ``None`` for every other image, and those of other environments."""
    match = _NAME.fullmatch(name)
    if match is None or match["environment"] != environment.replace("-", ""):
        return None
    key = match["instance"]
    return InstanceId(f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}")
