"""Messengers: how long a message takes until it is on its agent's socket, and what idle sockets cost the connector.

Messenger, connector and agent of the first figures are one process, over SQLite, which syncs each commit to the disk;
Redis is a real one. Idle sockets are held by a process of its own.
"""

import asyncio
import multiprocessing
import os
import socket
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from uuid import uuid4

from hermesops.api.serve import raise_open_files
from hermesops.base.waiting import cancel, pause
from hermesops.connector.server import PATH
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.users.messaging.inbound.routing import CONNECTED
from hermesops.users.messaging.inbound.shared_bell import SharedBell
from hermesops.users.messaging.relay_secrets import derive
from tests.bench.figures import Board
from tests.support.real.stores.redis_server import RedisServer, redis_server
from tests.support.real.stores.registries import KEYS, TurnedClock, placed, registry_at
from tests.support.users.messaging import HOST, ROOT, Messaging, bearer, dialled, messaging

MESSAGES = 200
SOCKETS = 5_000

_IN_PROCESS = "reported by a process that rings"
_BY_REDIS = "reported by another process that rings through Redis"
_BY_LOOKING = "reported by a process that does not ring, found by looking"
_EVERY_S = 0.1
_OPEN_AT_ONCE = 50
_IDLE_S = 20.0
_ADA = 111


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    asyncio.run(_deliveries(board, folder / "heard", _IN_PROCESS))
    (folder / "redis").mkdir(parents=True)
    with redis_server(folder / "redis") as redis:
        asyncio.run(_deliveries(board, folder / "shared", _BY_REDIS, redis))
    asyncio.run(_deliveries(board, folder / "polled", _BY_LOOKING))
    _commits(board, folder / "commits")
    _idle_sockets(board, folder / "sockets")


async def _deliveries(board: Board, folder: Path, how: str, redis: RedisServer | None = None) -> None:
    """From a report of the messenger until the agent has it, one message after the other."""
    database, ada = _placed(folder)
    took: list[float] = []
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway, _shared(world, redis):
        world.link(ada, _ADA)
        await world.hears(_ADA, CONNECTED)
        for number in range(MESSAGES):
            began = time.perf_counter()
            await _report(world, f"message {number}", how)
            frame = await gateway.next("inbound")
            took.append(time.perf_counter() - began)
            await gateway.send("tg.111", "ok", request=f"r{number}", reply_to=frame["event"]["message_id"])
            await pause(_EVERY_S)
    database.close()
    ordered = sorted(took)
    p95 = ordered[int(len(ordered) * 0.95)]
    board.add(
        f"a message on its agent's socket, {how}",
        f"p50 {median(ordered) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, max {ordered[-1] * 1000:.0f} ms",
        target="p95 <= 1200 ms" if how == _BY_LOOKING else "p95 <= 20 ms",
        against=f"{MESSAGES} messages, one after the other",
    )


async def _report(world: Messaging, text: str, how: str) -> None:
    """As the users' API stores it: in a thread, and one commit before the messenger is answered."""
    await asyncio.to_thread(world.say_elsewhere, _ADA, text)
    if how == _IN_PROCESS:
        world.heard.ring()
    elif how == _BY_REDIS:
        world.ring_others()


@asynccontextmanager
async def _shared(world: Messaging, redis: RedisServer | None) -> AsyncIterator[None]:
    """Two ends of the bell of a real Redis, each with a connection of its own; nothing without one."""
    if redis is None:
        yield
        return
    async with redis.client() as api, redis.client() as connector:
        bell = SharedBell(api)
        world.ring_others = bell.ring
        works = [asyncio.ensure_future(each) for each in (bell.publish(), SharedBell(connector).listen(world.heard))]
        await pause(1.0)
        try:
            yield
        finally:
            await cancel(*works)


def _commits(board: Board, folder: Path) -> None:
    """What one commit to the disk takes alone: two of them are on the way of a message."""
    database, ada = _placed(folder)
    incoming, took = IncomingMessages(database, KEYS), list[float]()
    for number in range(MESSAGES):
        update = Update(Messenger.TELEGRAM, f"u{number}", IncomingKind.MESSAGE, "111", "111", "hello")
        began = time.perf_counter()
        incoming.add(update)
        took.append(time.perf_counter() - began)
    database.close()
    assert ada.id
    ordered = sorted(took)
    board.add(
        "one commit of a message's row to SQLite",
        f"p50 {median(ordered) * 1000:.1f} ms, p95 {ordered[int(len(ordered) * 0.95)] * 1000:.1f} ms",
        target="",
        against=f"{MESSAGES} rows; two commits are on a message's way",
    )


def _placed(folder: Path) -> tuple[Database, Instance]:
    folder.mkdir(parents=True)
    url, clock = f"sqlite:///{folder}/registry.db", TurnedClock()
    registry = registry_at(url, clock=clock)
    instance = placed(registry)
    registry.close()
    return Database(url, clock=clock), instance


def _many(database: Database, instance: Instance) -> list[InstanceId]:
    """Rows of agents that a socket can name; they have ended, as a user has one that has not."""
    names = [InstanceId(str(uuid4())) for _ in range(SOCKETS)]
    values = {"user_id": instance.user_id, "plan": instance.plan, "status": InstanceStatus.TERMINATED}
    with database.writing() as connection:
        now = database.now(connection)
        rows = [{"id": name, "created_at": now, **values} for name in names]
        connection.execute(hermes_instances.insert(), rows)
    return names


def _idle_sockets(board: Board, folder: Path) -> None:
    """Sockets without messages: memory of the process that holds them, and processor time while nothing happens."""
    raise_open_files()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    connector = multiprocessing.get_context("spawn").Process(target=_hold, args=(folder, theirs), daemon=True)
    connector.start()
    try:
        port, names = ours.recv()
        before = _resident_mib(connector.pid)
        opened, seconds, mib, share = asyncio.run(_open_sockets(port, names, connector.pid))
        board.add(
            f"{opened:,} idle sockets of agents in one connector",
            f"{mib:.0f} MiB resident, {(mib - before) * 1024 / max(1, opened):.0f} KiB each, {share:.1%} of a core",
            target="<= 400 MB",
            against=f"without any: {before:.0f} MiB; opened in {seconds:.0f} s",
        )
    finally:
        connector.kill()
        connector.join()


def _hold(folder: Path, parent: Connection) -> None:
    """Be the connector until killed."""
    raise_open_files()

    async def hold() -> None:
        database, instance = _placed(folder)
        names = _many(database, instance)
        async with messaging(database) as world:
            connector = replace(world.connector(), secrets=lambda name: (derive(ROOT, name, 1),))
            serving = (connector.serve(socket.create_server((HOST, world.port))), connector.run(world.queued))
            works = [asyncio.ensure_future(each) for each in (*serving, connector.keep())]
            parent.send((world.port, names))
            try:
                await asyncio.Event().wait()
            finally:
                await cancel(*works)

    asyncio.run(hold())


async def _open_sockets(port: int, names: list[InstanceId], process: int | None) -> tuple[int, float, float, float]:
    """Open a socket for each agent; returns their number, seconds, memory in MiB, and the share of a core when idle."""
    began, gate = time.perf_counter(), asyncio.Semaphore(_OPEN_AT_ONCE)
    writers: list[asyncio.StreamWriter] = []

    async def open_socket(name: InstanceId) -> bool:
        token = bearer(name, derive(ROOT, name, 1))
        key = b64encode(os.urandom(16)).decode()
        request = (
            f"GET {PATH} HTTP/1.1\r\nHost: {HOST}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        async with gate:
            reader, writer = await asyncio.open_connection(HOST, port)
            writers.append(writer)
            writer.write(request.encode())
            return b" 101 " in await reader.readline()

    opened = sum(await asyncio.gather(*map(open_socket, names)))
    seconds = time.perf_counter() - began
    used = _processor_s(process)
    await pause(_IDLE_S)
    share, mib = (_processor_s(process) - used) / _IDLE_S, _resident_mib(process)
    for writer in writers:
        writer.transport.abort()
    return opened, seconds, mib, share


def _resident_mib(process: int | None) -> float:
    fields = Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()
    return int(fields[0]) / 1024


def _processor_s(process: int | None) -> float:
    """Seconds of processor time that a process has used: fields 14 and 15 of ``proc_pid_stat(5)``."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
