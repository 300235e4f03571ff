"""A client of the chat's WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect

from hermesops.api.application import PREFIX
from tests.support.users.api import UsersApi

PATH = f"{PREFIX}/chat/socket"


@asynccontextmanager
async def opened(api: UsersApi, token: str = "", **headers: str) -> AsyncIterator[ClientConnection]:
    address = urlsplit(api.process.url)
    url = f"ws://{headers.pop('host', address.netloc)}{PATH}"
    sent = {"authorization": f"Bearer {token or api.token()}", **headers}
    used = {name: value for name, value in sent.items() if value}
    # Without a limit: this client reads nothing more, not even the other side's end, while frames wait to be taken.
    async with connect(
        url, additional_headers=used, host=address.hostname, port=address.port, max_queue=None
    ) as socket:
        yield socket


async def send(socket: ClientConnection, **frame: object) -> None:
    await socket.send(json.dumps(frame))


async def receive(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(20):
        frame: dict[str, Any] = json.loads(await socket.recv())
    return frame
