"""What an instance's state amounts to, without saying what is in it: counts and digests of the logical content.

Two digests that are equal say that conversations, memory, skills, schedules and pairings are the same; no text of a
user's is in them. hermes-node makes them, on the machine (``hermes-node state``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.errors import BrokenInvariantError

KINDS = ("memory", "skills", "sessions", "messages", "cron", "pairings")
"""What a state consists of, in the order in which people are told of it."""


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
    """

    parts: Mapping[str, Part]

    @classmethod
    def from_json(cls, raw: object) -> "State":
        """Read what hermes-node or a row says.

        Raises:
            BrokenInvariantError: It is nothing of the kind.
        """
        try:
            return cls({str(kind): Part(int(part["count"]), str(part["digest"])) for kind, part in dict(raw).items()})  # type: ignore[call-overload]
        except (TypeError, ValueError, KeyError) as error:
            raise BrokenInvariantError(f"not the digest of a state: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """As rows and programs read it."""
        return {kind: {"count": part.count, "digest": part.digest} for kind, part in self.parts.items()}

    def differences(self, other: "State") -> tuple[str, ...]:
        """What is not the same in another one, a line each; empty when nothing is."""
        lines = []
        for kind in dict.fromkeys((*KINDS, *self.parts, *other.parts)):
            ours, theirs = self.parts.get(kind), other.parts.get(kind)
            # What nobody could read is not known to be the same, whatever its digest says.
            if ours != theirs or (ours is not None and ours.count < 0):
                lines.append(f"{kind}: {_words(ours)}, now {_words(theirs)}")
        return tuple(lines)

    def __str__(self) -> str:
        told = {kind: part.count if part.count >= 0 else "unreadable" for kind, part in self.parts.items()}
        return ", ".join(f"{count} {kind}" for kind, count in told.items())


def _words(part: Part | None) -> str:
    if part is None:
        return "unknown"
    return f"{part.count} ({part.digest[:12]})" if part.count >= 0 else "unreadable"
