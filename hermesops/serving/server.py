"""A server that answers one short request a connection, of clients with a certificate of the authority."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate

from hermesops.serving.error_body import error_body
from hermesops.serving.exchange import Exchange, RefusedRequestError
from hermesops.serving.listener import Bounds, Connection, MutualTlsListener


@dataclass(frozen=True)
class Answer:
    """An answer: JSON, secret where it is a key."""

    status: int
    body: bytes = field(repr=False)

    @classmethod
    def of(cls, status: int, document: Mapping[str, object]) -> "Answer":
        """Make the answer with this document."""
        return cls(status, json.dumps(document, sort_keys=True).encode())

    @classmethod
    def error(cls, status: int, code: str, message: str) -> "Answer":
        """Make the answer of an error; arguments as of ``error_body``."""
        return cls.of(status, error_body(code, message))


class MutualTlsServer:
    """Answers one short request a connection.

    Args:
        answer: Called in a thread with the client's certificate (DER), method, path and body.
        context: The TLS context of the next connection.
        clock: Seconds since 1970, for the header ``Date``, with which machines compare their clock.
    """

    def __init__(
        self,
        answer: Callable[[bytes, str, str, bytes], Answer],
        context: Callable[[], Awaitable[ssl.SSLContext]],
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._listener = MutualTlsListener(self._converse, context, self._bounds)

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled. The listener must not block."""
        await self._listener.serve(listener)

    async def _converse(self, connection: Connection) -> None:
        exchange = Exchange(connection.reader, connection.writer, largest_body=self._bounds.body_bytes)
        try:
            head = await exchange.head()
            body = await exchange.body(head.size)
            answer = await asyncio.to_thread(self._answer, connection.certificate, head.method, head.target, body)
        except RefusedRequestError as refused:
            answer = Answer.error(refused.status, refused.code, refused.words)
        headers = {"content-type": "application/json", "date": formatdate(self._clock(), usegmt=True)}
        await exchange.answer(answer.status, headers, answer.body)
        await exchange.linger()
