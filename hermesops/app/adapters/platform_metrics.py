"""Asks the platform's Prometheus, and pushes metrics to the platform's ingest."""

from collections.abc import Iterator
from typing import Any

from hermesops.errors import UnavailableError
from hermesops.telemetry.client import MonitoringClient, Question

_ANSWER_S = 15.0
_LARGEST = 64 << 20
"""Bytes of an answer: 250 for each of two samples of a hundred thousand instances."""

_PIECE = 512 << 10
"""Bytes of one push; the ingest limits them."""

INGEST = "/ingest/import"


class PlatformMetrics:
    """``hermesops.monitor.ports.Metrics`` over HTTP.

    Args:
        prometheus: Has Prometheus's API below its address.
        ingest: Takes samples in Prometheus's text format; ``None`` where nothing does.
    """

    def __init__(self, prometheus: MonitoringClient, ingest: MonitoringClient | None = None) -> None:
        self._prometheus = prometheus
        self._ingest = ingest

    async def aclose(self) -> None:
        """Close the connections."""
        await self._prometheus.aclose()
        if self._ingest:
            await self._ingest.aclose()

    async def query(self, promql: str) -> list[Any]:
        """The vector that an expression amounts to now.

        Raises:
            RefusedError: Prometheus does not take the expression, or us.
            UnavailableError: It does not answer, or with something else.
        """
        asked = Question(
            "/api/v1/query", (("query", promql),), method="POST", form=True, within_s=_ANSWER_S, largest=_LARGEST
        )
        answer = await self._prometheus.ask(asked)
        try:
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise UnavailableError(f"Prometheus at {self._prometheus.base_url} gives no vector")
            found: list[Any] = list(answer["data"]["result"])
        except (LookupError, TypeError) as error:
            words = f"Prometheus at {self._prometheus.base_url} answers what is no answer of its"
            raise UnavailableError(words) from error
        return found

    async def push(self, text: str) -> None:
        """Push samples, some hundred kilobytes at a time.

        Raises:
            RefusedError: They are not taken of us.
            UnavailableError: They were not taken; some may have been.
        """
        if self._ingest:
            for piece in _pieces(text):
                await self._ingest.ask(Question(INGEST, method="POST", content=piece, within_s=_ANSWER_S))


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
