"""What machines boot from, as the registry remembers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.model.ids import ImageId


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
