"""Asks the platform's Prometheus, and pushes metrics to the platform's ingest."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from hermesops.observability.telemetry.client import MonitoringClient, Question
from hermesops.observability.telemetry.endpoint import MonitoringEndpoint
from hermesops.observability.telemetry.metrics.prometheus_answer import WRONG, unreadable, whole

_ANSWER_S = 15.0
_LARGEST = 64 << 20
"""Bytes of an answer: 250 for each of two samples of a hundred thousand instances."""

_PIECE = 512 << 10
"""Bytes of one push; the ingest limits them."""

INGEST = "/ingest/import"


class PlatformMetrics:
    """The platform's metrics over HTTP.

    Args:
        prometheus: Has Prometheus's API below its address.
        ingest: Takes samples in Prometheus's text format; ``None`` where nothing does.
    """

    def __init__(self, prometheus: MonitoringClient, ingest: MonitoringClient | None = None) -> None:
        self._prometheus = prometheus
        self._ingest = ingest

    async def aclose(self) -> None:
        """Close the connections to Prometheus and to the ingest."""
        await self._prometheus.aclose()
        if self._ingest:
            await self._ingest.aclose()

    async def query(self, promql: str) -> list[Any]:
        """The vector that an expression amounts to now.

        Raises:
            RefusedError: Prometheus does not take the expression, or us.
            UnavailableError: It does not answer, with a part only, or with something else.
        """
        question = Question(
            "/api/v1/query", (("query", promql),), method="POST", form=True, within_s=_ANSWER_S, largest=_LARGEST
        )
        whom = f"Prometheus at {self._prometheus.base_url}"
        data = whole(await self._prometheus.ask(question), whom=whom)
        try:
            if data["resultType"] != "vector":
                raise ValueError("no vector")
            return list(data["result"])
        except WRONG as error:
            raise unreadable("figures", error, whom=whom) from error

    async def push(self, text: str) -> None:
        """Push samples, some hundred kilobytes at a time.

        Raises:
            RefusedError: They are not taken of us.
            UnavailableError: They were not taken; some may have been.
        """
        if self._ingest:
            for piece in _pieces(text):
                await self._ingest.ask(Question(INGEST, method="POST", content=piece, within_s=_ANSWER_S))


@asynccontextmanager
async def open_metrics(endpoint: MonitoringEndpoint | None, url: str) -> AsyncIterator[PlatformMetrics | None]:
    """Connect to Prometheus and the ingest, and disconnect at the end; ``None`` where there is neither.

    Args:
        url: Of another Prometheus, asked in the place of the platform's; empty for the platform's own.
    """
    if endpoint is None and not url:
        yield None
        return
    ingest = MonitoringClient(endpoint.url, endpoint.context, keeps=True) if endpoint else None
    prometheus = (
        MonitoringClient(url, keeps=True, is_ours=False)
        if url or endpoint is None
        else MonitoringClient(f"{endpoint.url}/prometheus", endpoint.context, keeps=True)
    )
    async with aclosing(PlatformMetrics(prometheus, ingest)) as metrics:
        yield metrics


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
