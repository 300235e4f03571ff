"""Counts and digests of an instance's state, without its content.

Equal digests mean equal conversations, memory, skills, schedules and pairings; they contain no user's text.
hermes-node makes them on the machine (``hermes-node state``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.errors import BrokenInvariantError

KINDS = ("memory", "skills", "sessions", "messages", "cron", "pairings")
"""The parts of a state, in the order of display."""


@dataclass(frozen=True)
class Part:
    """One kind of things in a state.

    Attributes:
        count: How many there are; negative where they could not be read.
        digest: Hexadecimal SHA-256 of their content, whatever their order.
    """

    count: int
    digest: str


@dataclass(frozen=True)
class State:
    """The digest of a state.

    Attributes:
        parts: By kind; a kind that a node does not know of yet is absent.
        restored: Of a machine: the backup that replaced its state, while nothing can have run since, else empty.
            ``None`` where its node is too old to tell.
    """

    parts: Mapping[str, Part]
    restored: str | None = field(default=None, compare=False)

    @classmethod
    def from_json(cls, raw: object) -> "State":
        """Read the JSON of hermes-node or of a row.

        Raises:
            BrokenInvariantError: It has another form.
        """
        try:
            return cls({str(kind): Part(int(part["count"]), str(part["digest"])) for kind, part in dict(raw).items()})  # type: ignore[call-overload]
        except (TypeError, ValueError, KeyError) as error:
            raise BrokenInvariantError(f"not the digest of a state: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """As JSON, for rows and programs."""
        return {kind: {"count": part.count, "digest": part.digest} for kind, part in self.parts.items()}

    def is_of(self, backup_id: str, backed_up: "State") -> bool:
        """Whether a machine's state is that backup: it replaced the one before, and its digest is the same.

        The digest alone does not tell: files that it does not count may be lost, as the user's configuration.
        """
        if self.restored is None:
            return not backed_up.differences(self)
        return self.restored == backup_id and self == backed_up

    def differences(self, other: "State") -> tuple[str, ...]:
        """The differences to another state, a line each."""
        lines = []
        for kind in dict.fromkeys((*KINDS, *self.parts, *other.parts)):
            ours, theirs = self.parts.get(kind), other.parts.get(kind)
            # Unreadable parts are not known to be equal, whatever their digests are.
            if ours != theirs or (ours is not None and ours.count < 0):
                lines.append(f"{kind}: {_words(ours)}, now {_words(theirs)}")
        return tuple(lines)

    def __str__(self) -> str:
        counts = {kind: part.count if part.count >= 0 else "unreadable" for kind, part in self.parts.items()}
        return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _words(part: Part | None) -> str:
    if part is None:
        return "unknown"
    return f"{part.count} ({part.digest[:12]})" if part.count >= 0 else "unreadable"
