"""The served console with the open pages of two hundred operators: its memory, and what it uses while nothing happens.

The process under measure has the issuer of the operators too, and its registry is PostgreSQL's.
"""

import asyncio
import html
import multiprocessing
import os
import re
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlencode

import httpx

from hermesops.base.waiting import cancel, pause
from hermesops.console.operators.gate import COOKIE
from hermesops.console.serve import Server
from hermesops.localcloud.vendors.issuer import Person
from tests.bench.figures import Board, report
from tests.support.fleets.filled_registry import beat, fill
from tests.support.fleets.in_memory import ordered
from tests.support.pages.operators import HOST, VISIT, served_console
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at

INSTANCES = 10_000
OPERATORS = 200
WATCHED_S = 20.0
"""Seconds for which all pages are open: each shape is read several times meanwhile."""

_AT_ONCE = 10
_FRESH = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
_ABOUT = re.compile(r'data-kind="([^"]*)" data-name="([^"]*)"')
_DIGEST = re.compile(r'data-digest="([0-9a-f]+)"')


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    if postgresql.programs() is None:
        report("    left out: there is no PostgreSQL on this computer")
        return
    with postgresql.running() as server:
        url = server.new_registry()
        with closing(registry_at(url)) as registry:
            fill(registry, INSTANCES)
            beat(registry, silent_every=100)
        _open_pages(board, url, folder)


def _open_pages(board: Board, url: str, folder: Path) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    console = multiprocessing.get_context("spawn").Process(target=_serve, args=(url, folder, theirs), daemon=True)
    console.start()
    try:
        port, cookies = ours.recv()
        before = _resident_mib(console.pid)
        opened, beats, mib, share = asyncio.run(_watch(port, cookies, console.pid))
        board.add(
            f"console: {opened} operators' open pages at {INSTANCES:,} instances",
            f"{mib:.0f} MiB at most, {share:.0%} of a core; {beats / opened:.0f} beats each in {WATCHED_S:.0f} s",
            target="<= 300 MB",
            against=f"signed in, before the first page: {before:.0f} MiB",
        )
    finally:
        console.kill()
        console.join()


def _serve(url: str, folder: Path, parent: Connection) -> None:
    """Be the served console, in which every operator has signed in, until killed."""

    async def serve() -> None:
        async with served_console(url, folder / "home") as console:
            people = [
                Person(f"operator-{number}", f"o{number}@local.test", ("viewers",)) for number in range(OPERATORS)
            ]
            console.operators[:] = people
            cookies = [(await console.signed_in(person.name)).cookies[COOKIE] for person in people]
            await console.close()
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            serving = asyncio.ensure_future(Server(console.app, listener).serve_until_cancelled())
            parent.send((listener.getsockname()[1], cookies))
            try:
                await asyncio.Event().wait()
            finally:
                await cancel(serving)

    asyncio.run(serve())


def _path_of(number: int) -> str:
    """The page of an operator: the fleet or a part of it, the list of instances or a part, an instance, operations."""
    cell, instance = {"where": f"cell=cell{number + 1}"}, ordered(number).instance.id
    paths = (
        "/console/",
        f"/console/instances?{urlencode(cell)}",
        f"/console/instances/{instance}",
        "/console/instances",
        "/console/operations",
        f"/console/?{urlencode(cell)}",
    )
    return paths[number % len(paths)]


async def _watch(port: int, cookies: Sequence[str], process: int | None) -> tuple[int, int, float, float]:
    """Open a page and its stream for each operator: their number, all beats, memory, and the share of a core."""
    gate, beats = asyncio.Semaphore(_AT_ONCE), [0] * len(cookies)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60) as client:

        async def watch(number: int, cookie: str) -> None:
            headers = {"host": HOST, "user-agent": "browser", "cookie": f"{COOKIE}={cookie}"}
            async with gate:
                page = await client.get(_path_of(number), headers={**headers, **VISIT})
                assert page.status_code == httpx.codes.OK, page.text
                kind, name = _ABOUT.findall(page.text)[0]
                query = {"kind": kind, "name": html.unescape(name), "digest": _DIGEST.findall(page.text)[0]}
                streaming = client.stream("GET", "/console/events", params=query, headers={**headers, **_FRESH})
                stream = await streaming.__aenter__()
                lines = stream.aiter_lines()
                while await anext(lines) != "event: beat":
                    pass
            opened.append(number)
            async for line in lines:
                beats[number] += line == "event: beat"

        opened: list[int] = []
        watching = [asyncio.ensure_future(watch(number, cookie)) for number, cookie in enumerate(cookies)]
        most = 0.0
        while len(opened) < len(cookies):
            await pause(0.2)
            most = max(most, _resident_mib(process))
            for task in watching:
                if task.done():
                    task.result()
        beats[:] = [0] * len(beats)
        began, used = time.monotonic(), _processor_s(process)
        while time.monotonic() - began < WATCHED_S:
            await pause(0.2)
            most = max(most, _resident_mib(process))
        share = (_processor_s(process) - used) / (time.monotonic() - began)
        counted = sum(beats)
        await cancel(*watching)
        return len(opened), counted, most, share


def _resident_mib(process: int | None) -> float:
    fields = Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()
    return int(fields[0]) / 1024


def _processor_s(process: int | None) -> float:
    """Seconds of processor time that a process has used: fields 14 and 15 of ``proc_pid_stat(5)``."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
