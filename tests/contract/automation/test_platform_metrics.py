"""What the monitor asks of Prometheus, and pushes: a real Prometheus, and one that answers badly."""

import asyncio
import gzip
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hermesops.automation.monitor.metrics import platform_metrics
from hermesops.automation.monitor.metrics.heartbeats import METRIC, QUERY, SAMPLED, parse
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.errors import UnavailableError
from hermesops.observability.telemetry.client import MonitoringClient
from tests.support.real.monitoring import prometheus
from tests.support.suite.prerequisites import require

Answer = Callable[[bytes], bytes]


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[PlatformMetrics, list[bytes]]]:
    """A server that answers each request so, and the bodies that it was sent."""
    bodies = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head.lower())
                body = await reader.readexactly(int(length[1])) if length else b""
                bodies.append(body)
                writer.write(answer(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = MonitoringClient(url, keeps=True)
    metrics = PlatformMetrics(client, client)
    try:
        yield metrics, bodies
    finally:
        await metrics.aclose()
        server.close()


async def test_a_real_prometheus_tells_heartbeats_of_all_instances_in_one_answer(tmp_path: Path) -> None:
    programs = prometheus.programs()
    require(programs, "Debian's prometheus (apt-get download prometheus)")
    assert programs
    now = time.time()
    past = [
        prometheus.Series(
            metric, "gauge", {"instance_id": name, "machine": machine, "origin": "platform"}, [(now - 38, value)]
        )
        for name, machine, written in (
            ("ada", "m1", now - 45),
            ("ada", "m2", now - 70),
            ("bob", "m3", float("nan")),
            ("cleo", "m4", now + 9_999),
        )
        for metric, value in ((METRIC, written), (SAMPLED, now - 40))
    ]
    # As any machine may write it.
    past.append(prometheus.Series(METRIC, "gauge", {"instance_id": "dan", "machine": "m5"}, [(now - 38, now - 45)]))
    with prometheus.running(tmp_path, programs, past) as url:
        metrics = PlatformMetrics(MonitoringClient(url, keeps=True))
        beats = parse(await metrics.query(QUERY), now_s=time.time())
        await metrics.push("nobody takes it 1\n")
        await metrics.aclose()
    assert set(beats) == {"ada", "bob", "cleo"}
    for instance_id, beat in beats.items():
        assert beat.sampled == pytest.approx(now - 40, abs=0.01)
        assert (beat.written is None) == (instance_id != "ada")
    written = [beat.written for instance_id, beat in beats.items() if instance_id == "ada"]
    assert written == [pytest.approx(now - 45, abs=0.01)]


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"no JSON"),
        whole(b"[]"),
        whole(b'{"status": "error"}'),
        whole(b'{"status": "success", "data": {"resultType": "matrix", "result": []}}'),
        whole(b'{"status": "success", "data": {"resultType": "vector", "result": 7}}'),
        whole(b"[" * 200_000),
        whole(b"oh no", "500 Internal Server Error"),
        whole(b"", "302 Found"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbroken",
        b"garbage\r\n\r\n",
    ],
)
async def test_what_is_no_answer_of_prometheus_is_told_as_none(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_metrics, "_ANSWER_S", 1.0)
    async with answering(lambda _: answer) as (metrics, _):
        with pytest.raises(UnavailableError, match=r"Prometheus|127\.0\.0\.1"):
            await metrics.query("up")


async def test_an_answer_that_is_too_large_or_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_metrics, "_ANSWER_S", 0.5)
    monkeypatch.setattr(platform_metrics, "_LARGEST", 1_000)
    async with answering(lambda _: whole(b"x" * 5_000)) as (metrics, _):
        with pytest.raises(UnavailableError, match="more than 1000 bytes"):
            await metrics.query("up")
    async with answering(lambda _: b"HTTP/1.1 200 OK\r\n") as (metrics, _):
        with pytest.raises(UnavailableError, match="gives no answer"):
            await metrics.query("up")
    with pytest.raises(UnavailableError, match="gives no answer"):
        await PlatformMetrics(MonitoringClient("http://127.0.0.1:1")).query("up")


async def test_metrics_are_pushed_in_pieces_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_metrics, "_PIECE", 100)
    lines = [f'series{{number="{number}"}} {number}\n' for number in range(50)]
    async with answering(lambda _: whole(b"", "204 No Content")) as (metrics, bodies):
        await metrics.push("".join(lines))
    assert b"".join(bodies).decode() == "".join(lines)
    assert len(bodies) > 5
    assert all(body.endswith(b"\n") for body in bodies)
    async with answering(lambda _: whole(b"too many", "429 Too Many Requests")) as (metrics, _):
        with pytest.raises(UnavailableError, match="answers with status 429: “too many”"):
            await metrics.push("up 1\n")


async def test_what_a_refusal_says_is_shown_harmless_and_nothing_is_unpacked() -> None:
    async with answering(lambda _: whole(b"\x1b[2J\r\nworse", "500 Internal Server Error")) as (metrics, _):
        with pytest.raises(UnavailableError, match="answers with status 500") as raised:
            await metrics.query("up")
    assert raised.value.message.isprintable()
    packed = gzip.compress(b'{"status": "success", "data": {"resultType": "vector", "result": []}}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    async with answering(lambda _: head + packed) as (metrics, _):
        with pytest.raises(UnavailableError, match="compressed"):
            await metrics.query("up")


async def test_one_connection_serves_all_questions_until_the_certificate_is_another() -> None:
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
    connections = list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(whole(b"", "204 No Content"))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    kept = PlatformMetrics(MonitoringClient(url), MonitoringClient(url, lambda: contexts[-1], keeps=True))
    for _ in range(3):
        await kept.push("up 1\n")
    assert len(connections) == 1
    contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    await kept.push("up 1\n")
    assert len(connections) == 2
    await kept.aclose()
    server.close()
