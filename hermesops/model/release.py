"""Releases, as far as the registry knows them; what one is made of stands in its lock."""

from dataclasses import dataclass
from datetime import datetime
from typing import NewType

ReleaseId = NewType("ReleaseId", str)
"""``<agent version>-<first 12 hex digits of the lock's SHA-256>``."""


def release_subject(release_id: ReleaseId) -> str:
    """What the audit calls a release."""
    return f"release/{release_id}"


@dataclass(frozen=True)
class KnownRelease:
    """A row of ``releases``.

    Attributes:
        digest: SHA-256 of the lock, hex.
        who: Made it known here.
        revoked_at: From when on no machine may run it; ``None`` while it counts.
        why: It was revoked; empty while it counts.
    """

    id: ReleaseId
    digest: str
    agent_version: str
    created_at: datetime
    who: str
    revoked_at: datetime | None = None
    why: str = ""
