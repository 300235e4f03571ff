"""Addresses by which agents read users' files at the connector: signed, and valid for an hour. Pure.

hermes-agent 0.19.0 passes an address on to its model as it is, so that the address itself has to prove who may read;
newer gateways also sign the request, and may read as long as the message's text is kept.
"""

import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from hermesops.model.messaging.files import UserFile
from hermesops.model.messaging.message import Incoming

MEDIA = "/relay/media"
"""Path of the connector at which agents read and send files. Source: hermes-agent's relay contract."""

LIFE_S = 3600
"""Seconds for which an address alone lets its holder read."""

_REFERENCE = re.compile(
    r"(?P<message>[0-9]{1,18})-(?P<index>[0-9])-(?P<expires>[0-9]{1,12})-(?P<signature>[0-9a-f]{40})"
)
_UPLOADED = re.compile(rf"{MEDIA}/(?P<id>[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")
_LONGEST = 2048


@dataclass(frozen=True)
class Reference:
    """What an address claims, not yet verified."""

    message_id: int
    index: int
    expires_at: int
    signature: str

    def is_signed(self, secrets: Sequence[str]) -> bool:
        """Whether one of these secrets signed it."""
        wanted = [_signature(secret, self.message_id, self.index, self.expires_at) for secret in secrets]
        return any(hmac.compare_digest(self.signature, each) for each in wanted)


@dataclass(frozen=True)
class AddressedFile:
    """A file with its address for the agent."""

    file: UserFile
    url: str


def addressed(incoming: Incoming, base: str, secret: str, now: float) -> Iterator[AddressedFile]:
    """The files of a message with their addresses.

    Args:
        base: URL at which agents reach the connector.
        secret: Of the agent's gateway.
        now: Seconds since 1970.
    """
    expires_at = int(now) + LIFE_S
    for index, file in enumerate(incoming.files):
        signature = _signature(secret, incoming.id, index, expires_at)
        yield AddressedFile(file, f"{base.rstrip('/')}{MEDIA}/{incoming.id}-{index}-{expires_at}-{signature}")


def parse(path: str) -> Reference | None:
    """Parse the path of an address; ``None`` for any other."""
    match = _REFERENCE.fullmatch(path.removeprefix(f"{MEDIA}/"))
    if match is None:
        return None
    return Reference(int(match["message"]), int(match["index"]), int(match["expires"]), match["signature"])


def uploaded_id(url: str) -> str:
    """Id of a file that an agent sent to the connector, by the address that the agent made; empty for any other one.

    Only the path counts: nothing is ever fetched from an address that an agent names.
    """
    if len(url) > _LONGEST:
        return ""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    match = _UPLOADED.fullmatch(path)
    return match["id"] if match else ""


def _signature(secret: str, message_id: int, index: int, expires_at: int) -> str:
    signed = f"file/{message_id}/{index}/{expires_at}".encode()
    return hmac.new(secret.encode(), signed, sha256).hexdigest()[:40]
