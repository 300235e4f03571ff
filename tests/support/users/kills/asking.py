"""A user's requests to the processes of the API: one that does not answer is left for the other."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.localcloud.vendors.issuer import LocalIssuer, Person

PREFIX = "/api/hermes"
_TIMEOUT = httpx.Timeout(25.0, connect=5.0)
"""More than the 15 s between two comments of a stream."""

_LATER = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class RefusedError(Exception):
    """The API refused a request, and did not say that it may be repeated.

    Attributes:
        status: Of the answer; ``code`` is the problem's.
    """

    def __init__(self, what: str, status: int, code: str, detail: str) -> None:
        super().__init__(f"{what}: {status} {code} {detail}")
        self.status = status
        self.code = code


class AwayError(Exception):
    """Nobody answered, or the answer was to repeat the request."""


@dataclass
class Asking:
    """A user who asks.

    Attributes:
        urls: Of the API's processes; the first one is asked unless it does not answer.
        retries: Requests that were repeated, by the reason.
    """

    user_id: str
    urls: Sequence[str]
    issuer: LocalIssuer
    chance: random.Random
    retries: Counter[str] = field(default_factory=Counter)
    first: int = 0

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: object = None
    ) -> AsyncIterator[httpx.Response]:
        """Ask once, and read the answer as it comes.

        Raises:
            AwayError: See there.
            RefusedError: See there.
        """
        token = self.issuer.access_token(Person(self.user_id, "user"))
        sent = {"authorization": f"Bearer {token}", **(headers or {})}
        try:
            async with (
                own_client(timeout=_TIMEOUT) as http,
                http.stream(method, f"{self.urls[self.first]}{PREFIX}{path}", headers=sent, json=body) as response,
            ):
                await self._refuse(response, f"{method} {path}")
                yield response
        except httpx.HTTPError as error:
            self.first = (self.first + 1) % len(self.urls)
            self.retries[type(error).__name__] += 1
            raise AwayError(str(error)) from error

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - as JSON
        """Ask until somebody answers; the answer's JSON. Raises ``RefusedError``."""
        while True:
            try:
                async with self.stream(method, path, body=body) as response:
                    await response.aread()
                    return response.json()
            except AwayError:
                await self.wait()

    async def wait(self) -> None:
        """Wait before a request is repeated."""
        await pause(self.chance.uniform(0.2, 1.0))

    async def _refuse(self, response: httpx.Response, what: str) -> None:
        if response.is_success:
            return
        await response.aread()
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        code, detail = str(problem.get("code", "")), str(problem.get("detail", ""))
        if response.status_code in _LATER:
            self.retries[f"{response.status_code} {code}"] += 1
            await pause(min(2.0, float(response.headers.get("retry-after", 1))))
            raise AwayError(code)
        raise RefusedError(what, response.status_code, code, detail)
