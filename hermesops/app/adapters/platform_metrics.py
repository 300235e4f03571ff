"""Asks the platform's Prometheus, and pushes metrics to the platform's ingest."""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from hermesops.errors import UnavailableError
from hermesops.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.node.untrusted.foreign_text import one_line

_ANSWER_S = 15.0
_LARGEST = 64 << 20
"""Bytes of an answer: 250 for each of two samples of a hundred thousand instances."""

_SHOWN = 200
"""Characters of a refusal that are shown."""

_PIECE = 512 << 10
"""Bytes of one push; the ingest limits them."""


class PlatformMetrics:
    """``hermesops.monitor.ports.Metrics`` over HTTP.

    Args:
        query_url: Base URL of Prometheus's API.
        push_url: What takes samples in its text format; empty where nothing does.
        context: Makes the TLS context; another object than before has a newer certificate. ``None`` without TLS.
    """

    def __init__(self, query_url: str, push_url: str = "", context: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._query_url = query_url
        self._push_url = push_url
        self._context = context
        self._opened: tuple[ssl.SSLContext | None, httpx.AsyncClient] | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened:
            await self._opened[1].aclose()
            self._opened = None

    async def query(self, promql: str) -> list[Any]:
        """The vector that an expression amounts to now.

        Raises:
            UnavailableError: It does not answer, or with something else.
        """
        body = await self._post(f"{self._query_url}/api/v1/query", data={"query": promql})
        try:
            answer = await asyncio.to_thread(json.loads, body)
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise UnavailableError(f"Prometheus at {self._query_url} gives no vector")
            found: list[Any] = list(answer["data"]["result"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise UnavailableError(f"Prometheus at {self._query_url} answers what is no answer of its") from error
        return found

    async def push(self, text: str) -> None:
        """Push samples, some hundred kilobytes at a time.

        Raises:
            UnavailableError: They were not taken; some may have been.
        """
        if self._push_url:
            for piece in _pieces(text):
                await self._post(self._push_url, content=piece)

    async def _post(self, url: str, **sent: Any) -> bytes:  # noqa: ANN401 - httpx's own options
        try:
            async with asyncio.timeout(_ANSWER_S):
                client = await self._client()
                async with client.stream("POST", url, **sent) as answer:
                    body = await AnswerBody(answer, deadline=Deadline(_ANSWER_S), largest=_LARGEST).whole()
        except (TimeoutError, httpx.HTTPError, OSError, UnreadableAnswerError) as error:
            said = one_line(str(error), longest=_SHOWN) or type(error).__name__
            raise UnavailableError(f"{url} does not answer: {said}") from error
        if not answer.is_success:
            said = one_line(body.decode(errors="replace"), longest=_SHOWN)
            raise UnavailableError(f"{url} answers {answer.status_code}: {said}")
        return body

    async def _client(self) -> httpx.AsyncClient:
        context = self._context() if self._context else None
        if self._opened is None or self._opened[0] is not context:
            await self.aclose()
            # The same address with another certificate must not go through a connection of the old one.
            self._opened = (
                context,
                httpx.AsyncClient(
                    verify=context or True,
                    trust_env=False,
                    timeout=_ANSWER_S,
                    headers={"Accept-Encoding": "identity"},
                ),
            )
        return self._opened[1]


def _pieces(text: str) -> Iterator[bytes]:
    """A text in pieces of whole lines."""
    piece = bytearray()
    for line in text.splitlines(keepends=True):
        piece += line.encode()
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
