"""Counts of requests in the last minutes, for operators: numbers of users, and nothing that a user said or is.

Only reads that are answered from rows count as slow: others wait for an agent, whose user could make them slow.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.model.api_figures import WINDOW_S, RequestFigures
from hermesops.store.user_rows.api_figures import ApiFigures

SLOW_S = 2.0
"""Seconds to the first byte of an answer from rows; a database that is well takes hundredths."""

_BUCKET_S = 60
_MOST_USERS = 20_000
_EVERY_S = 15.0
_ROWS = frozenset(f"/api/hermes/{name}" for name in ("me", "instance", "plan", "usage", "settings", "connections"))
_WEBHOOKS = "/webhooks/"

log = structlog.get_logger()


@dataclass
class _Bucket:
    """Counts of one minute; users are counted by id, once each."""

    users: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    taken: int = 0
    refused: int = 0


class RequestCounts:
    """Counts of one process.

    Args:
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._numbers = itertools.count()
        self._buckets: dict[int, _Bucket] = {}
        self._waiting: dict[int, tuple[Callable[[], str], float]] = {}

    def begin(self, user: Callable[[], str]) -> int:
        """Note a read that waits for its answer; the number that ``end`` takes.

        Args:
            user: Says whose it is, once the request's token was read; empty for nobody's.
        """
        number = next(self._numbers)
        self._waiting[number] = (user, self.monotonic())
        return number

    def end(self, number: int) -> None:
        """The read has its answer, or nobody waits for it."""
        self._waiting.pop(number, None)

    def read(self, user: str, seconds: float, *, is_failed: bool) -> None:
        """Count a user's read that was answered from rows."""
        bucket = self._bucket()
        if len(bucket.users) < _MOST_USERS or user in bucket.users:
            bucket.users.add(user)
            if is_failed or seconds >= SLOW_S:
                bucket.slow.add(user)

    def webhook(self, *, is_taken: bool) -> None:
        """Count a vendor's event as taken, or as refused."""
        bucket = self._bucket()
        bucket.taken += is_taken
        bucket.refused += not is_taken

    def figures(self) -> RequestFigures:
        """The counts of the last minutes; a read that waits too long counts before it ends, which it may never do."""
        self._bucket()
        now = self.monotonic()
        for user, since in list(self._waiting.values()):
            if now - since >= SLOW_S and (name := user()):
                self.read(name, now - since, is_failed=False)
        buckets = self._buckets.values()
        users = set[str]().union(*(bucket.users for bucket in buckets))
        slow = set[str]().union(*(bucket.slow for bucket in buckets))
        taken, refused = sum(bucket.taken for bucket in buckets), sum(bucket.refused for bucket in buckets)
        return RequestFigures(len(users), len(slow), taken, refused)

    def _bucket(self) -> _Bucket:
        minute = int(self.monotonic() // _BUCKET_S)
        for old in [each for each in self._buckets if minute - each >= WINDOW_S // _BUCKET_S]:
            del self._buckets[old]
        return self._buckets.setdefault(minute, _Bucket())


class Counted:
    """Counts what the application answers.

    Args:
        counts: Takes the counts.
    """

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and count its status and duration by user."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = self._counts.monotonic()
        is_read = scope["method"] == "GET" and scope["path"] in _ROWS
        number = self._counts.begin(lambda: str(scope.get("state", {}).get("user") or "")) if is_read else -1

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts.end(number)
                self._count(scope, int(message["status"]), self._counts.monotonic() - begun)
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            self._counts.end(number)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        path, method = scope["path"], scope["method"]
        if path.startswith(_WEBHOOKS):
            if status in {HTTPStatus.NO_CONTENT, HTTPStatus.UNAUTHORIZED}:
                self._counts.webhook(is_taken=status == HTTPStatus.NO_CONTENT)
            return
        user = scope.get("state", {}).get("user")
        if user and method == "GET" and path in _ROWS and status != HTTPStatus.TOO_MANY_REQUESTS:
            self._counts.read(user, seconds, is_failed=status >= HTTPStatus.INTERNAL_SERVER_ERROR)


async def write_figures(counts: RequestCounts, rows: ApiFigures) -> None:
    """Write this process's figures every few seconds until cancelled."""
    process = uuid4().hex
    while True:
        try:
            await asyncio.to_thread(rows.put, process, counts.figures())
        except HermesError as error:
            log.warning("figures_not_written", why=error.message)
        await pause(_EVERY_S)
