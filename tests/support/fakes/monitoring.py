"""The platform's monitoring on loopback, with answers that a test writes: well-formed, wrong, late, without an end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hermesops.base.waiting import pause
from hermesops.observability.telemetry.client import MonitoringClient

BEGAN = "2026-01-02T03:04:05.123456789Z"


@dataclass(frozen=True)
class Asked:
    """A question as it arrived."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> tuple[tuple[str, str], ...]:
        return tuple(parse_qsl(self.body.decode()))

    def param(self, name: str) -> str:
        return dict(self.params)[name]


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        body: Bytes as they are, or what becomes JSON.
        late_s: Seconds until it comes.
        drips: Whether bytes come for ever, one after another.
    """

    body: Any = None
    status: int = 200
    late_s: float = 0.0
    drips: bool = False


Answers = Callable[[Asked], Answer]


@dataclass
class FakeMonitoring:
    """Answers by the beginning of paths; the longest that fits counts."""

    answers: dict[str, Answer | Answers] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def client(self) -> MonitoringClient:
        return MonitoringClient(f"http://127.0.0.1:{self.port}")

    def _answer(self, request: Asked) -> Answer:
        fits = [begin for begin in self.answers if f"{request.method} {request.path}".startswith(begin)]
        if not fits:
            return Answer(b"nothing is there", 404)
        answer = self.answers[max(fits, key=len)]
        return answer if isinstance(answer, Answer) else answer(request)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = first.split(" ")
            url = urlsplit(target)
            request = Asked(method, url.path, tuple(parse_qsl(url.query)), headers, body)
            self.asked.append(request)
            answer = self._answer(request)
            await pause(answer.late_s)
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            length = "" if answer.drips else f"Content-Length: {len(content)}\r\n"
            writer.write(f"HTTP/1.1 {answer.status} Words\r\n{length}Connection: close\r\n\r\n".encode() + content)
            await writer.drain()
            while answer.drips:
                writer.write(b" ")
                await writer.drain()
                await pause(0.01)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_monitoring(**answers: Answer | Answers) -> AsyncIterator[FakeMonitoring]:
    """Runs one; ``answers`` is empty for one that knows nothing."""
    monitoring = FakeMonitoring(dict(answers))
    server = await asyncio.start_server(monitoring.serve, "127.0.0.1", 0)
    monitoring.port = server.sockets[0].getsockname()[1]
    try:
        yield monitoring
    finally:
        server.close()


def alert(name: str = "GatewayDown", *, silenced: tuple[str, ...] = (), **labels: str) -> dict[str, Any]:
    """An alert as Alertmanager answers it."""
    return {
        "labels": {"alertname": name, "severity": "page", **labels},
        "annotations": {
            "summary": f"{name} of something",
            "figure": "0 of 1",
            "runbook_url": "https://runbooks.example.org/machine-gone.md",
        },
        "startsAt": BEGAN,
        "endsAt": "2026-01-02T04:04:05Z",
        "updatedAt": BEGAN,
        "fingerprint": "00ff",
        "receivers": [{"name": "web"}],
        "status": {"state": "suppressed" if silenced else "active", "silencedBy": list(silenced), "inhibitedBy": []},
        "generatorURL": "",
    }


def silence(silence_id: str = "ab12", *, comment: str = "it is known", state: str = "active") -> dict[str, Any]:
    """A silence as Alertmanager answers it."""
    return {
        "id": silence_id,
        "status": {"state": state},
        "updatedAt": BEGAN,
        "comment": comment,
        "createdBy": "ada@here",
        "startsAt": BEGAN,
        "endsAt": "2026-01-02T05:04:05Z",
        "matchers": [{"name": "alertname", "value": "GatewayDown", "isRegex": False, "isEqual": True}],
    }


def vector(*samples: tuple[dict[str, str], float | str]) -> Answer:
    """Figures as Prometheus answers them."""
    result = [{"metric": labels, "value": [1767323045, str(value)]} for labels, value in samples]
    return Answer({"status": "success", "data": {"resultType": "vector", "result": result}})


def streams(*some: tuple[str, list[tuple[int, str]]]) -> Answer:
    """Lines as Loki answers them, by unit, with seconds since 1970."""
    result = [
        {"stream": {"unit": unit, "priority": "info"}, "values": [[f"{at}000000000", text] for at, text in lines]}
        for unit, lines in some
    ]
    return Answer({"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}})


def matrix(*series: tuple[Mapping[str, str], Sequence[tuple[float, float | str]]]) -> Answer:
    """Figures over time as Prometheus answers them."""
    result = [{"metric": labels, "values": [[at, str(value)] for at, value in points]} for labels, points in series]
    return Answer({"status": "success", "data": {"resultType": "matrix", "result": result}})
