"""Releases in the registry; their content is in their locks."""

from dataclasses import dataclass
from datetime import datetime
from typing import NewType

ReleaseId = NewType("ReleaseId", str)
"""``<agent version>-<first 12 hex digits of the lock's SHA-256>``."""


def release_subject(release_id: ReleaseId) -> str:
    """A release's name in the audit log."""
    return f"release/{release_id}"


@dataclass(frozen=True)
class KnownRelease:
    """A row of ``releases``.

    Attributes:
        digest: SHA-256 of the lock, hex.
        who: Added it.
        revoked_at: No machine may run it from then on; ``None`` while it is valid.
        why: The reason of the revocation; empty while it is valid.
    """

    id: ReleaseId
    digest: str
    agent_version: str
    created_at: datetime
    who: str
    revoked_at: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRelease:
    """The release that an instance was last observed to run.

    Attributes:
        since: When it was first observed to run this one.
    """

    id: ReleaseId
    since: datetime
