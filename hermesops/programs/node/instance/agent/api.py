"""The agent's HTTP API on loopback.

The agent is its user's, and may be under an attacker's control: its answers are bounded in time and size, and their
shape is never trusted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermesops.programs.node.system.https import hung_up_after
from hermesops.wire import foreign_text, strict_json

if TYPE_CHECKING:
    from http.client import HTTPResponse

SOURCE = "127.0.0.9"
"""Where hermes-node's own connections to the agent come from; ``node.system.firewall`` lets them alone through."""

_LARGEST = 16 << 20
"""Bytes of an answer; the messages of one long session are the longest."""

_PIECE = 1 << 16


@dataclass(frozen=True)
class Answer:
    """An answer of the agent's API.

    Attributes:
        status: 0 without an answer.
        body: JSON of any shape, or text; the reason if there was no answer.
    """

    status: int
    body: Any

    def part(self, *names: str) -> Mapping[str, Any]:
        """The object under these names, each inside the one before; empty if there is none."""
        value = self.body
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        """The objects in the list of that name; ``None`` if there is no list."""
        items = self.part().get(name)
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else None

    def __str__(self) -> str:
        """Status and body as a quotation that is safe to show."""
        text = self.body if isinstance(self.body, str) else repr(self.body)[: 4 * foreign_text.LONGEST]
        return f"{self.status}: {foreign_text.quoted(text)}" if self.status else foreign_text.one_line(text)


def ask(
    port: int,
    path: str,
    *,
    key: str = "",
    body: Mapping[str, Any] | None = None,
    method: str = "",
    timeout_s: float = 5.0,
    largest: int | None = None,
) -> Answer:
    """Ask once; raises nothing.

    A body is sent as JSON, as a POST unless a method is named. ``timeout_s`` is for the whole exchange: an agent may
    send a byte now and then for ever. ``largest`` limits the bytes of an answer, further than for the longest one.
    """
    import http.client  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s, source_address=(SOURCE, 0))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    content, limit = None, _LARGEST if largest is None else largest
    if body is not None:
        content, headers["Content-Type"] = json.dumps(body), "application/json"
    try:
        connection.connect()
        with hung_up_after(connection.sock, timeout_s) as is_over:
            connection.request(method or ("GET" if body is None else "POST"), path, body=content, headers=headers)
            response = connection.getresponse()
            data = _read(response, limit)
        if is_over.is_set():  # an answer without a length ends where its connection does
            raise TimeoutError(f"no whole answer within {timeout_s:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(0, str(error) or type(error).__name__)
    finally:
        connection.close()
    try:
        return Answer(response.status, strict_json.parse(data, largest=limit))
    except strict_json.MalformedJSONError:
        return Answer(response.status, data[:4096].decode(errors="replace"))


def _read(response: "HTTPResponse", largest: int) -> bytes:
    read = bytearray()
    while len(read) <= largest and (piece := response.read1(_PIECE)):
        read += piece
    if len(read) > largest:
        raise ValueError(f"an answer of more than {largest} bytes")
    return bytes(read)
