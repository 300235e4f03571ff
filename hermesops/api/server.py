"""uvicorn as this API uses it: on a socket that is ours, and with the API's own refusals."""

import asyncio
import json
import logging
import secrets
import socket
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermesops.api.front import HEADERS
from hermesops.api.problems import MEDIA_TYPE, body_of
from hermesops.api.routes.chat_socket import LARGEST_FRAME

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE = 8_000
"""Connections: 5,000 idle streams of answers, and requests beside them. ``make bench T=api`` shows their memory."""

_KEEP_ALIVE_S = 30
_STOP_S = 3


class _Connection(H11Protocol):
    """A connection that refuses a malformed request as the API refuses all others; uvicorn's own answer is plain text.

    Source: uvicorn 0.54, ``H11Protocol.send_400_response``.
    """

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP request, and close. An answer that has begun is cut off.

        Args:
            msg: Uvicorn's words.
        """
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            request_id = secrets.token_hex(8)
            body = json.dumps(body_of(HTTPStatus.BAD_REQUEST, "bad-request", msg, request_id)).encode()
            headers = {
                **HEADERS,
                "x-request-id": request_id,
                "content-type": MEDIA_TYPE,
                "content-length": str(len(body)),
                "connection": "close",
            }
            answer = h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _is_mistake(record: logging.LogRecord) -> bool:
    """Whether uvicorn names a mistake: it takes a socket that was answered with a refusal for one (0.54)."""
    return "without completing handshake" not in str(record.msg)


class Server(uvicorn.Server):
    """uvicorn on a socket that is ours before it starts; signals are the process's."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="websockets-sansio",
                ws_max_size=LARGEST_FRAME,
                ws_per_message_deflate=False,  # memory for each socket
                lifespan="off",
                access_log=False,  # lines of requests hold cursors and codes
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                limit_concurrency=_AT_ONCE,
                timeout_graceful_shutdown=_STOP_S,  # streams of events end with a turn, which may be long
            )
        )
        self._listener = listener
        logging.getLogger("uvicorn.error").addFilter(_is_mistake)

    @contextmanager
    def capture_signals(self) -> "Iterator[None]":
        """Leave signals to the process, which stops several servers in order."""
        yield

    async def serve_until_cancelled(self) -> None:
        """Serve until cancelled, then give requests under way some seconds."""
        serving = asyncio.ensure_future(self.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
