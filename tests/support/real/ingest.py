"""Stands in for the platform's ingest: takes what machines send over mutual TLS, and remembers who sent it."""

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermesops.access.pki.authority import OwnedCertificate

WRITE, LOGS = "/ingest/write", "/ingest/logs"


@dataclass(frozen=True)
class Received:
    """One request.

    Attributes:
        serial: Of the sender's certificate, hexadecimal as ``ssl`` spells it.
    """

    path: str
    headers: dict[str, str]
    serial: str
    body: bytes

    def lines(self) -> list[tuple[dict[str, str], str]]:
        """Labels and text of each line of logs."""
        pushed: dict[str, Any] = json.loads(self.body)
        return [(stream["stream"], line) for stream in pushed["streams"] for _, line in stream["values"]]

    def metrics(self) -> bytes:
        """A remote write's protobuf, in which names and labels stand as they are."""
        return unsnappy(self.body)


@dataclass
class Ingest:
    """The stand-in.

    Attributes:
        status: What it answers with.
    """

    context: ssl.SSLContext
    address: str
    port: int
    status: int = 204
    received: list[Received] = field(default_factory=list)
    server: asyncio.Server | None = None
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    def of(self, path: str) -> list[Received]:
        return [request for request in self.received if request.path == path]

    def lines(self) -> list[tuple[dict[str, str], str]]:
        return [line for request in self.of(LOGS) for line in request.lines()]

    def has_metric(self, name: str) -> bool:
        return any(name.encode() in request.metrics() for request in self.of(WRITE))

    async def open(self) -> None:
        """Listen, again after ``close`` too."""
        self.server = await asyncio.start_server(self._serve, self.address, self.port, ssl=self.context)

    async def close(self) -> None:
        """Refuse connections, and end those there are."""
        if self.server:
            self.server.close()
            self.server = None
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *rest = head.strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                peer = writer.get_extra_info("peercert")
                self.received.append(Received(first.split()[1], headers, peer["serialNumber"], body))
                writer.write(f"HTTP/1.1 {self.status} x\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        self.writers.discard(writer)
        writer.close()


@asynccontextmanager
async def ingest_at(
    address: str, port: int, own: OwnedCertificate, authority: str, folder: Path
) -> AsyncIterator[Ingest]:
    """One that lets in whoever has a certificate of that authority, PEM."""
    chain = folder / "ingest.pem"
    chain.write_text(own.key + own.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(chain)
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    ingest = Ingest(context, address, port)
    await ingest.open()
    try:
        yield ingest
    finally:
        await ingest.close()


def unsnappy(packed: bytes) -> bytes:
    """What was compressed as one block of Snappy (github.com/google/snappy, format_description.txt)."""
    at = next(index for index, byte in enumerate(packed) if byte < 0x80) + 1  # behind the length, a varint
    out = bytearray()
    while at < len(packed):
        tag, kind = packed[at] >> 2, packed[at] & 3
        at += 1
        if kind == 0:
            size = tag + 1
            if tag >= 60:
                more = tag - 59
                size = int.from_bytes(packed[at : at + more], "little") + 1
                at += more
            out += packed[at : at + size]
            at += size
            continue
        if kind == 1:
            size, offset = (tag & 7) + 4, (tag >> 3) << 8 | packed[at]
            at += 1
        else:
            width = 2 if kind == 2 else 4
            size, offset = tag + 1, int.from_bytes(packed[at : at + width], "little")
            at += width
        for _ in range(size):  # a copy may reach into what it makes
            out.append(out[-offset])
    return bytes(out)
