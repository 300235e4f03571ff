"""The socket of the platform's service in a local world: a connection starts it, and again after it has ended."""

import asyncio
import contextlib
import os
import sys
from ipaddress import IPv4Address
from pathlib import Path

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.world.platform_socket import Service, opened, opened_for_agents, opened_for_users

_SERVICE = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[sys.argv.index("--socket") + 1]))
listener.setblocking(True)
connection, _ = listener.accept()
connection.sendall(str(os.getpid()).encode())
"""
HOST = IPv4Address("127.0.0.1")


async def connect(url: str) -> int:
    host, _, port = url.removeprefix("https://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    output = await reader.read()
    writer.close()
    return int(output)


async def test_the_service_is_started_by_a_connection_and_again_after_it_has_ended(tmp_path: Path) -> None:
    store, started = Store(tmp_path / "world.db"), tmp_path / "started"
    script = f"open({str(started)!r}, 'a').write('x')\n{_SERVICE}"
    async with opened(Service((sys.executable, "-c", script), {"PATH": os.defpath}), store, HOST, 0) as url:
        assert not started.exists()
        assert len({await connect(url), await connect(url)}) == len("xx")
        assert started.read_text() == "xx"
    async with opened(Service((sys.executable, "-c", script), {"PATH": os.defpath}), store, HOST, 0) as again:
        assert again == url
    store.close()


async def test_the_users_api_is_started_by_a_browser_at_the_same_address_and_ends_with_the_world(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "world.db")
    service = Service((sys.executable, "-c", _SERVICE), {"PATH": os.defpath})
    async with opened_for_users(service, store, str(HOST)) as url:
        assert url.startswith("http://localhost:")
        at = f"https://{HOST}:{url.rpartition(':')[2]}"
        first, second = await connect(at), await connect(at)
        assert first != second
    async with opened_for_users(service, store, str(HOST)) as again:
        assert again == url
    store.close()


async def test_the_connector_is_started_by_a_message_without_any_connection(tmp_path: Path) -> None:
    store, started, wanted = Store(tmp_path / "world.db"), tmp_path / "started", asyncio.Event()
    script = f"open({str(started)!r}, 'a').write('x')\n{_SERVICE}"
    service = Service((sys.executable, "-c", script), {"PATH": os.defpath})
    async with opened_for_agents(service, store, HOST, 0, wanted) as url:
        assert url.startswith(f"https://{HOST}:")
        assert not started.exists()
        wanted.set()

        async def begun() -> bool | Pending[bool]:
            return started.exists() or Pending("not yet")

        await until(begun, what="the service", timeout_s=20, every_s=0.05)
        await connect(url)
    store.close()


async def test_a_service_ends_once_it_is_served_elsewhere_and_who_connects_is_turned_away(tmp_path: Path) -> None:
    store, door = Store(tmp_path / "world.db"), tmp_path / "door"
    waits = "import time\nwhile True: time.sleep(1)"
    script = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n{waits}"
    service = Service((sys.executable, "-c", script), {"PATH": os.defpath})
    async with opened_for_agents(service, store, HOST, 0, asyncio.Event(), door.exists) as url:
        host, _, port = url.removeprefix("https://").rpartition(":")
        await asyncio.open_connection(host, int(port))

        async def begun() -> int | Pending[int]:
            text = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
            return int(text) if text else Pending("not yet")

        number = await until(begun, what="the service", timeout_s=20, every_s=0.05)
        door.touch()

        process = Path(f"/proc/{number}")

        async def ended() -> bool | Pending[bool]:
            return not process.exists() or Pending("it runs")  # noqa: ASYNC240 - procfs does not block

        await until(ended, what="its end", timeout_s=20, every_s=0.05)
        with contextlib.suppress(ConnectionError):
            reader, _ = await asyncio.open_connection(host, int(port))
            assert await asyncio.wait_for(reader.read(), 20) == b""
        (tmp_path / "pid").unlink()
        door.unlink()
        await asyncio.open_connection(host, int(port))
        assert await until(begun, what="the service again", timeout_s=20, every_s=0.05) != number
    store.close()
