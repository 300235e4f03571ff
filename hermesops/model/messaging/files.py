"""Files in messengers: a user's by the messenger's reference, an agent's by its content."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.model.messaging.messenger import Messenger

LARGEST = 25 << 20
"""Bytes of a file, both ways. Source: hermes-agent's relay contract, ``MEDIA_MAX_BYTES``."""

MOST = 10
"""Files of one message."""

DOWNLOADS: Mapping[Messenger, int] = {Messenger.TELEGRAM: 20_000_000}
"""Bytes of a file that a bot may read, where that is fewer. Source: Telegram Bot API, ``getFile``."""

UPLOADS: Mapping[Messenger, int] = {Messenger.DISCORD: 10 << 20}
"""Bytes of a file that a bot may send, where that is fewer. Source: Discord, "Uploading Files"."""


class FileKind(StrEnum):
    """How a messenger shows a file; agents hear of it as the kind of the message."""

    PHOTO = "photo"
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


@dataclass(frozen=True)
class UserFile:
    """A file of a user's message, which stays at the messenger until the agent reads it.

    Attributes:
        reference: The messenger's id of it.
        name: As it is shown; made from the kind where the messenger names none.
        media_type: As the sender's app claims.
        size: Bytes, as the messenger says; 0 where it says none.
    """

    kind: FileKind
    reference: str = field(repr=False)
    name: str = field(repr=False)
    media_type: str = ""
    size: int = 0

    def document(self) -> Mapping[str, Any]:
        """As a row keeps it."""
        return {
            "kind": self.kind.value,
            "reference": self.reference,
            "name": self.name,
            "type": self.media_type,
            "size": self.size,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "UserFile":
        """From a row."""
        kind = FileKind(document["kind"])
        return cls(kind, document["reference"], document["name"], document["type"], document["size"])


@dataclass(frozen=True)
class AgentFile:
    """A file that an agent sends.

    Attributes:
        media_type: By its content.
    """

    id: str
    name: str = field(repr=False)
    media_type: str
    content: bytes = field(repr=False)


def largest_download(messenger: Messenger) -> int:
    """Bytes of a user's file that its agent may read. Pure."""
    return min(LARGEST, DOWNLOADS.get(messenger, LARGEST))


def largest_upload(messenger: Messenger) -> int:
    """Bytes of an agent's file that its user may get. Pure."""
    return min(LARGEST, UPLOADS.get(messenger, LARGEST))
