"""One release of a store, as machines are handed it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hermesops.model.release import ReleaseId
from hermesops.node.release.documents.lock import Blob
from hermesops.release.releases import Releases


@dataclass(frozen=True)
class HandedOut:
    """One release as machines are handed it.

    Attributes:
        releases: Where it is kept.
    """

    id: ReleaseId
    releases: Releases

    def handout(self, python: str) -> bytes:
        """What a machine with that Python is told of it."""
        return self.releases.handout(self.id, python).to_json()

    def blob(self, sha256: str) -> bytes | Path:
        """One file of it."""
        return self.releases.blob(self._blobs[sha256])

    @cached_property
    def _blobs(self) -> dict[str, Blob]:
        return {blob.sha256: blob for blob in self.releases.read(self.id).all_blobs()}
