"""Files beside agents' sockets: an agent reads those of its user's messages, and sends those that its user is to get.

Source: hermes-agent's relay contract, ``/relay/media``, as ``gateway/relay/media.py`` of releases after 0.19.0 uses it:
``POST`` with the name in ``X-Media-Filename`` answers ``{"id": …}``, ``GET`` answers the bytes.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from weakref import WeakValueDictionary

import structlog

from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import LARGEST
from hermesops.serving.error_body import error_body
from hermesops.serving.exchange import Exchange, Head, RefusedRequestError
from hermesops.users.messaging.files.references import MEDIA, parse
from hermesops.users.messaging.files.service import MessageFiles, MisnamedError, NoSuchFileError
from hermesops.users.messaging.messengers.exchange import TooLargeError
from hermesops.users.messaging.relay_secrets import Bearer, parse_bearer

_AT_ONCE = 2
"""Files in memory at once: each has up to 25 MB."""

_WAIT_S = 20.0
"""Seconds that a file waits for its turn; gateways wait for an answer for 30."""

_TOTAL_S = 120.0
_MOST_WAITING = 64
_ODD = re.compile(r"[^A-Za-z0-9._ -]")
_STATUSES: Mapping[type[Exception], HTTPStatus] = {
    NoSuchFileError: HTTPStatus.NOT_FOUND,
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    MisnamedError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnknownOutcomeError: HTTPStatus.SERVICE_UNAVAILABLE,
    RefusedError: HTTPStatus.NOT_FOUND,
}

log = structlog.get_logger()


@dataclass
class MediaDoor:
    """Answers agents' requests for files, one a connection."""

    files: MessageFiles
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE), init=False)
    _agents: "WeakValueDictionary[str, asyncio.Lock]" = field(default_factory=WeakValueDictionary, init=False)
    _open: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection soon; one that is too many is closed."""
        if len(self._open) >= _MOST_WAITING:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def close(self) -> None:
        """End all connections."""
        for task in self._open:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange(reader, writer, largest_body=LARGEST)
        try:
            async with asyncio.timeout(_TOTAL_S):
                await self._converse(exchange)
        except (OSError, TimeoutError):
            writer.transport.abort()
        except Exception:  # a bug costs one connection, not the others
            log.exception("file_failed")
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, exchange: Exchange) -> None:
        try:
            await self._answer(exchange, await exchange.head())
        except RefusedRequestError as error:
            await _refuse(exchange, error.status, error.code)
        except HermesError as error:
            status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), HTTPStatus.NOT_FOUND)
            log.info("file_not_given", status=int(status), why=error.message)
            await _refuse(exchange, status, "no_file")
        await exchange.linger()

    async def _answer(self, exchange: Exchange, head: Head) -> None:
        headers, path = dict(head.headers), head.target.partition("?")[0]
        bearer, reference = parse_bearer(headers.get("authorization", "")), parse(path)
        if head.method == "POST" and path == MEDIA and bearer is not None:
            await self._keep(exchange, head, bearer, headers.get("x-media-filename", ""))
        elif head.method == "GET" and reference is not None:
            incoming = await self.files.find(reference, bearer)
            async with self._place(str(incoming.instance_id)):
                file = await self.files.read(incoming, reference)
                await exchange.answer(HTTPStatus.OK, _headers(file.name, file.media_type), file.content)
        else:
            status = HTTPStatus.UNAUTHORIZED if path == MEDIA else HTTPStatus.NOT_FOUND
            await _refuse(exchange, status, "no_file")

    async def _keep(self, exchange: Exchange, head: Head, bearer: Bearer, name: str) -> None:
        secrets = await asyncio.to_thread(self.files.secrets, bearer.instance_id)
        if not bearer.is_signed(secrets, time.time()):
            await _refuse(exchange, HTTPStatus.UNAUTHORIZED, "unsigned")
            return
        async with self._place(bearer.instance_id):
            content = await exchange.body(head.size)
            id_ = await asyncio.to_thread(self.files.keep, bearer.instance_id, name, content)
        await exchange.answer(HTTPStatus.OK, _JSON, json.dumps({"id": id_}).encode())

    @asynccontextmanager
    async def _place(self, agent: str) -> AsyncIterator[None]:
        """A place among the files in memory: one for each agent, so that none takes those of the others.

        Raises:
            RefusedRequestError: None is free in time.
        """
        own = self._agents.setdefault(agent, asyncio.Lock())
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_WAIT_S):
                    await stack.enter_async_context(own)
                    await stack.enter_async_context(self._turn)
            except TimeoutError:
                raise RefusedRequestError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many files at once") from None
            yield


_JSON = {"content-type": "application/json"}


def _headers(name: str, media_type: str) -> Mapping[str, str]:
    """Headers of a file: an agent keeps it by the name in them, which has plain characters alone."""
    return {
        "content-type": media_type,
        "content-disposition": f'attachment; filename="{_ODD.sub("_", name)}"',
        "x-content-type-options": "nosniff",
    }


async def _refuse(exchange: Exchange, status: HTTPStatus, code: str) -> None:
    await exchange.answer(status, _JSON, json.dumps(error_body(code, status.phrase)).encode())
