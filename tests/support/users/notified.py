"""A host that A2A notifications go to, behind TLS on loopback."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.base.network.public_hosts import PublicNetwork
from tests.support.network.host_certificate import certificate

HOSTNAME = "hooks.example.com"

PassOn = Callable[[Mapping[str, str], bytes], Awaitable[None]]


@dataclass
class Receiver:
    """A host that is notified.

    Attributes:
        taken: Heads and bodies of what it took.
        fails: Notifications that it refuses first.
        status: Its answer to others.
        pass_on: Gets each notification that it takes.
    """

    port: int
    trust: Path
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    fails: int = 0
    status: str = "204 No Content"
    pass_on: PassOn | None = None

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = {"request": lines[0]} | {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)
        }
        body = await reader.readexactly(int(head["content-length"]))
        status, self.fails = ("503 Away" if self.fails else self.status), max(0, self.fails - 1)
        self.taken.append((head, body))
        if self.pass_on:
            await self.pass_on(head, body)
        writer.write(
            f"HTTP/1.1 {status}\r\nlocation: /other\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    @property
    def states(self) -> list[str]:
        return [str(json.loads(body)["task"]["status"]["state"]) for _, body in self.taken]

    @property
    def network(self) -> PublicNetwork:
        """The network of a sender that reaches this host as it would the internet's."""
        return PublicNetwork(loopback, lambda _: True, self.port, lambda: ssl.create_default_context(cafile=self.trust))


@asynccontextmanager
async def receiving(folder: Path) -> AsyncIterator[Receiver]:
    files = certificate(folder, [HOSTNAME])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = Receiver(int(listener.getsockname()[1]), files[0])
        server = await asyncio.start_server(receiver.take, sock=listener, ssl=context)
        async with server:
            yield receiver


async def loopback(_host: str) -> Sequence[str]:
    return ["127.0.0.1"]
