"""The gateway of Discord's stand-in, reached by the one port of the world."""

import asyncio
import json
from collections import Counter

from starlette.applications import Starlette
from websockets.asyncio.client import connect

from hermesops.base.waiting import cancel
from hermesops.localcloud.proxy.upgrade import Handshake
from hermesops.localcloud.server.listener import Listener, listen, port_of
from hermesops.localcloud.server.wiring import _upgrading
from hermesops.localcloud.vendors.discord_gateway import LocalGateway
from hermesops.users.messaging.messengers.discord.gateway import GatewaySession

PATH = b"/discord/gateway"


async def test_a_bot_begins_its_session_by_the_worlds_port_and_other_sockets_go_elsewhere() -> None:
    elsewhere: list[bytes] = []

    async def refuse(handshake: Handshake, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(handshake.target)
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    gateway, listener = LocalGateway(lambda: "token", Counter()), listen("127.0.0.1", 0)
    await gateway.open()
    server = Listener(Starlette(), listener, _upgrading({PATH: gateway.carry}, refuse))
    serving = asyncio.ensure_future(server.run_until_stopped())
    url = f"ws://127.0.0.1:{port_of(listener)}"
    gateway.passed_on = f"{url}{PATH.decode()}"
    try:
        async with connect(f"{gateway.url}/?v=10&encoding=json", proxy=None) as socket:
            assert json.loads(await socket.recv())["op"] == 10
            await socket.send(json.dumps(dict(GatewaySession().opening("token"))))
            ready = json.loads(await socket.recv())
            assert (ready["t"], ready["d"]["resume_gateway_url"]) == ("READY", gateway.url)
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
        writer.write(b"GET /other HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        writer.close()
        assert elsewhere == [b"/other"]
    finally:
        server.stop()
        await cancel(serving)
        await gateway.close()
