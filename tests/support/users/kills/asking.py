"""A user's requests to the processes of the API: one that does not answer is left for the other."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.localcloud.vendors.issuer import LocalIssuer, Person

PREFIX = "/api/hermes"
_TIMEOUT = httpx.Timeout(25.0, connect=5.0)
"""More than the 15 s between two comments of a stream."""

_OPEN_S, _CLOSE_S = 10.0, 1.0
_BROKEN = (OSError, TimeoutError, ConnectionClosed, InvalidHandshake)
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
        sent = {**self._credentials(), **(headers or {})}
        try:
            async with (
                own_client(timeout=_TIMEOUT) as http,
                http.stream(method, f"{self.urls[self.first]}{PREFIX}{path}", headers=sent, json=body) as response,
            ):
                if not response.is_success:
                    await response.aread()
                    problem = {**_json_of(response), "status": response.status_code}
                    raise await self.refusal(f"{method} {path}", problem, response.headers.get("retry-after", "1"))
                yield response
        except httpx.HTTPError as error:
            raise self._away(error) from error

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[ClientConnection]:
        """Open a WebSocket; raises as ``stream``."""
        url = f"{self.urls[self.first]}{PREFIX}{path}".replace("http", "ws", 1)
        opened = connect(
            url, additional_headers=self._credentials(), open_timeout=_OPEN_S, close_timeout=_CLOSE_S, max_queue=None
        )
        try:
            async with opened as socket:
                yield socket
        except InvalidStatus as refused:
            raise await self.refusal(path, {"status": refused.response.status_code}) from refused
        except _BROKEN as error:
            raise self._away(error) from error

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

    async def refusal(self, what: str, problem: Mapping[str, Any], again_s: str = "1") -> AwayError | RefusedError:
        """The error for an answer that is a problem; one that is temporary after its pause."""
        status, code, detail = int(problem["status"]), str(problem.get("code", "")), str(problem.get("detail", ""))
        if status in _LATER:
            self.retries[f"{status} {code}"] += 1
            await pause(min(2.0, float(again_s)))
            return AwayError(code)
        return RefusedError(what, status, code, detail)

    def _away(self, error: Exception) -> AwayError:
        self.first = (self.first + 1) % len(self.urls)
        code = f" {error.rcvd.code}" if isinstance(error, ConnectionClosed) and error.rcvd else ""
        self.retries[f"{type(error).__name__}{code}"] += 1
        return AwayError(str(error))

    def _credentials(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.issuer.access_token(Person(self.user_id, 'user'))}"}


def _json_of(response: httpx.Response) -> Mapping[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
