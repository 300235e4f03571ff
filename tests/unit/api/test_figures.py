"""Counts of requests that the API tells operators: users of reads from rows, and vendors' events."""

import asyncio
from dataclasses import dataclass

import pytest
from starlette.types import Message, Receive, Scope, Send

from hermesops.api.figures import SLOW_S, Counted, RequestCounts
from hermesops.model.api_figures import RequestFigures


@dataclass
class Clock:
    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Answers:
    """An application that answers after some seconds, to a user or to nobody."""

    clock: Clock
    status: int
    user: str
    seconds: float

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.clock.at += self.seconds
        if self.user:
            scope.setdefault("state", {})["user"] = self.user
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        self.clock.at += 60  # the rest of a stream is no wait
        await send({"type": "http.response.body", "body": b""})


async def asked(
    path: str, *, method: str = "GET", status: int = 200, user: str = "ada", seconds: float = 0.1
) -> RequestFigures:
    clock = Clock()
    counts = RequestCounts(clock)

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None: ...

    app = Counted(Answers(clock, status, user, seconds), counts)
    await app({"type": "http", "path": path, "method": method}, receive, send)
    return counts.figures()


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        ("/api/hermes/me", {}, RequestFigures(users=1)),
        ("/api/hermes/plan", {"seconds": SLOW_S}, RequestFigures(users=1, slow_users=1)),
        ("/api/hermes/plan", {"status": 503}, RequestFigures(users=1, slow_users=1)),
        ("/api/hermes/plan", {"status": 404}, RequestFigures(users=1)),
        ("/api/hermes/plan", {"status": 429, "seconds": 9}, RequestFigures()),
        ("/api/hermes/plan", {"status": 401, "user": "", "seconds": 9}, RequestFigures()),
        ("/api/hermes/plan", {"method": "POST", "seconds": 9}, RequestFigures()),
        ("/api/hermes/cron", {"status": 503, "seconds": 9}, RequestFigures()),
        ("/api/hermes/chat/turns/1/events", {"seconds": 9}, RequestFigures()),
        ("/webhooks/stripe/hermes", {"method": "POST", "status": 204, "user": ""}, RequestFigures(webhooks_taken=1)),
        ("/webhooks/stripe/hermes", {"method": "POST", "status": 401, "user": ""}, RequestFigures(webhooks_refused=1)),
        ("/webhooks/stripe/hermes", {"method": "POST", "status": 503, "user": ""}, RequestFigures()),
    ],
)
async def test_what_counts(path: str, options: dict[str, object], expected: RequestFigures) -> None:
    assert await asked(path, **options) == expected  # type: ignore[arg-type] # of the table


def test_counts_are_of_users_and_end_with_the_window() -> None:
    clock = Clock()
    counts = RequestCounts(clock)
    for _ in range(50):
        counts.read("ada", 9, is_failed=False)
    counts.read("bob", 0, is_failed=False)
    counts.webhook(is_taken=False)
    assert counts.figures() == RequestFigures(users=2, slow_users=1, webhooks_refused=1)
    clock.at += 200
    counts.read("bob", 0, is_failed=True)
    assert counts.figures() == RequestFigures(users=2, slow_users=2, webhooks_refused=1)
    clock.at += 150
    assert counts.figures() == RequestFigures(users=1, slow_users=1)
    clock.at += 400
    assert counts.figures() == RequestFigures()


async def test_a_read_that_waits_counts_before_its_answer_comes() -> None:
    """As while the database stands still: nobody would be told until the readers give up."""
    clock, is_asked, may_answer = Clock(), asyncio.Event(), asyncio.Event()
    counts = RequestCounts(clock)

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["user"] = "ada"
        is_asked.set()
        await may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None: ...

    scope: Scope = {"type": "http", "path": "/api/hermes/plan", "method": "GET"}
    reading = asyncio.ensure_future(Counted(app, counts)(scope, receive, send))
    await is_asked.wait()
    assert counts.figures() == RequestFigures()
    clock.at += SLOW_S
    assert counts.figures() == RequestFigures(users=1, slow_users=1)
    may_answer.set()
    await reading
    clock.at += 3600
    assert counts.figures() == RequestFigures(), "it waits no longer"
