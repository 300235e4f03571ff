"""A model provider on loopback, by TLS, that stands for every host of the table and for one of a user's own.

It knows keys, and answers as the real ones do: 401, 402, a list of models, a description of a key, an answer.
"""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermesops.base.network.public_hosts import PublicNetwork
from hermesops.model.providers.choice import ProviderChoice, choose
from hermesops.model.providers.provider import ModelProvider
from hermesops.model.providers.table import CUSTOM, PROVIDERS
from hermesops.vendor.model_providers.client import ModelProviderClient
from tests.support.network.host_certificate import certificate

OWN_ADDRESSES = {CUSTOM: "https://models.example.org/v1", "azure": "https://mine.openai.azure.com/openai/v1"}
"""Addresses of accounts, for providers that have none of their own."""


def key_for(facts: ModelProvider, words: str = "0123456789abcdef") -> str:
    """A key as this provider's begin."""
    return f"{(facts.keys or ('key-',))[0]}{words}"


def choice_of(facts: ModelProvider, **changes: str) -> ProviderChoice:
    """A right choice of a provider."""
    parts = {"model": facts.example, "key": key_for(facts), "base_url": OWN_ADDRESSES.get(facts.id, "")}
    return choose(facts.id, **{**parts, **changes})


@dataclass
class StandInProvider:
    """The provider.

    Attributes:
        asked: Request line, headers and body of each request.
        status: Of its answers to known keys.
        body: Of these answers; ``None`` for the one that fits the request.
        is_silent: Whether it takes requests and answers none.
        is_endless: Whether its answers have no end.
    """

    network: PublicNetwork
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    models: tuple[str, ...] = ()
    status: int = 200
    body: bytes | None = None
    is_silent: bool = False
    is_endless: bool = False

    @property
    def client(self) -> ModelProviderClient:
        """What asks it."""
        return ModelProviderClient(self.network)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if self.is_silent:
            await reader.read()
            writer.close()
            return
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        content = await reader.readexactly(int(head.get("content-length", "0")))
        self.asked.append((lines[0], head, json.loads(content) if content else None))
        key = head.get("authorization", "").removeprefix("Bearer ") or head.get("x-api-key") or head.get("api-key")
        status = self.status if key in self.keys else 401
        body = self.body if self.body is not None else json.dumps(self._content(lines[0])).encode()
        length = "" if self.is_endless else f"content-length: {len(body)}\r\n"
        with contextlib.suppress(ConnectionError):
            writer.write(
                f"HTTP/1.1 {status} X\r\nlocation: https://elsewhere.example.org/\r\nconnection: close\r\n"
                f"{length}\r\n".encode()
                + body
            )
            await writer.drain()
            while self.is_endless:
                writer.write(b" " * 1_000)
                await writer.drain()
        writer.close()

    def _content(self, request: str) -> object:
        if request.startswith("POST"):
            return {"choices": [{"message": {"content": "pong"}}]}
        if "/key " in request:
            return {"data": {"label": "sk-or-…", "limit_remaining": None}}
        return {"object": "list", "data": [{"id": name} for name in self.models]}


async def loopback(_host: str) -> Sequence[str]:
    """Every host is here."""
    return ["127.0.0.1"]


@contextlib.asynccontextmanager
async def standing_in(folder: Path) -> AsyncIterator[StandInProvider]:
    """Run it until the block ends."""
    hosts = {facts.host for facts in PROVIDERS if facts.host}
    hosts |= {address.split("/")[2] for address in OWN_ADDRESSES.values()}
    files = certificate(folder, sorted(hosts))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        network = PublicNetwork(loopback, lambda _: True, port, lambda: ssl.create_default_context(cafile=files[0]))
        provider = StandInProvider(network)
        async with await asyncio.start_server(provider.take, sock=listener, ssl=context):
            yield provider
