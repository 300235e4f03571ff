"""Images: those that machines boot from, which the registry records, and snapshots of one instance's machine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.model.ids import ImageId, InstanceId, OperationId

PLATFORM_IMAGE = "hermes-platform"
"""Name of the image that the platform's machine of a local world boots from; it has no agent."""


@dataclass(frozen=True)
class Image:
    """A row of ``images``.

    Attributes:
        id: The vendor's id.
        name: The folder below ``images/`` that it was built from.
        digest: SHA-256 over everything the build depends on; equal digests make a build a no-op.
        manifest: Inputs with their SHA-256, packages and versions; JSON, no secrets.
    """

    id: ImageId
    name: str
    digest: str
    created_at: datetime
    manifest: Mapping[str, object] = field(default_factory=dict)


_NAME = re.compile(r"hermes-(?P<environment>[a-z0-9]+)-snapshot-(?P<instance>[0-9a-f]{32})-[0-9a-f]{12}")


def snapshot_name(environment: str, instance_id: InstanceId, operation_id: OperationId) -> str:
    """The name of the snapshot that an operation makes, so that a continued operation finds it."""
    operation = operation_id.replace("-", "")[:12]
    return f"hermes-{environment.replace('-', '')}-snapshot-{instance_id.replace('-', '')}-{operation}"


def owner_of(name: str, environment: str) -> InstanceId | None:
    """The instance of a snapshot of that name; ``None`` for other images and other environments."""
    match = _NAME.fullmatch(name)
    if match is None or match["environment"] != environment.replace("-", ""):
        return None
    key = match["instance"]
    return InstanceId(f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}")
