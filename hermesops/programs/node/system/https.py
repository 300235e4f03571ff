"""HTTPS of hermes-node to the platform's service and to download servers, with a time limit for each exchange.

The platform is reached by mutual TLS: the machine's certificate against the authority's. A download follows no
redirect: what was signed for is at the link itself, and the controller uploads the file otherwise.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from hermesops.wire.errors import BadRequestError, NotReadyError, RefusedError
from hermesops.wire.protocol import Credential
from hermesops.wire.tls_key import present

if TYPE_CHECKING:
    from http.client import HTTPResponse, HTTPSConnection
    from ssl import SSLContext

_PLATFORM_S = 10.0
"""Seconds for one try once it is connected, and for connecting."""

RETRY_S = 60.0
"""Seconds within which tries are made: the platform may be restarting, or its registry away for a moment."""

_LONGEST_PAUSE_S = 10.0
_MAX_BYTES = 64 * 1024
_RETRIED = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY})

DOWNLOADS_S = 300.0
"""Seconds for all downloads of one fetch, which holds the machine's lock of releases meanwhile."""

_DOWNLOAD_STEP_S = 30.0
"""Seconds for a connection, and for each read."""

_PIECE = 1 << 20


@dataclass(frozen=True)
class PlatformAnswer:
    """An answer of the platform.

    Attributes:
        date: Its header ``Date`` as it came; empty without one.
    """

    body: bytes
    date: str


@contextmanager
def hung_up_after(connection: socket.socket, seconds: float) -> Iterator[threading.Event]:
    """Shut a connection down once the time is over, so that a read from it ends.

    A socket's own timeout starts anew with every byte that comes.

    Yields:
        An event that is set once the time is over.
    """
    is_over = threading.Event()

    def hang_up() -> None:
        is_over.set()
        with suppress(OSError):  # it is over already
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()


def ask_platform(
    credential: Credential, key: bytes, method: str, path: str, body: bytes = b"", *, retry_s: float = RETRY_S
) -> bytes:
    """Ask the platform as the machine of that certificate; every request may be repeated.

    Args:
        credential: The machine's certificate, the authorities it trusts, and the platform's URL.
        path: From ``/v1`` on.
        retry_s: For how long tries are made.

    Raises:
        RefusedError: The platform refuses this machine.
        BadRequestError: The platform does not know this request.
        NotReadyError: The platform does not answer, or cannot now.
    """
    import random  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    deadline, pause_s = time.monotonic() + retry_s, 1.0
    while True:
        try:
            return ask_platform_once(credential, key, method, path, body).body
        except NotReadyError:
            # Up to twice as long, so that a whole fleet does not retry at once after an outage.
            wait_s = pause_s * random.uniform(1, 2)  # noqa: S311 - spreads load, guards nothing
            if time.monotonic() + wait_s > deadline:
                raise
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def ask_platform_once(credential: Credential, key: bytes, method: str, path: str, body: bytes = b"") -> PlatformAnswer:
    """Ask like ``ask_platform``, but only once: for a caller that repeats by itself."""
    import http.client  # noqa: PLC0415 - as above
    import ssl  # noqa: PLC0415 - as above

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the other side and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    where = urlsplit(credential.url)
    try:
        context.load_verify_locations(cadata=credential.authority)
        present(context, key, credential.certificate.encode())
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context)
        status, date, answer = _exchanged(connection, context, method, path, body)
    except (OSError, http.client.HTTPException) as error:
        raise NotReadyError(
            f"the platform at {credential.url} does not answer: {f'{type(error).__name__}: {error}'[:200]}"
        ) from error
    if status == HTTPStatus.OK and len(answer) <= _MAX_BYTES:
        return PlatformAnswer(answer, date)
    try:
        why = str(json.loads(answer)["error"])[:200]
    except (ValueError, KeyError, TypeError):
        why = "no reason that could be read"
    message = f"the platform answered {status}: {why}"
    if status == HTTPStatus.FORBIDDEN:
        raise RefusedError(message)
    raise NotReadyError(message) if status in _RETRIED else BadRequestError(message)


def _exchanged(
    connection: "HTTPSConnection", context: "SSLContext", method: str, path: str, body: bytes
) -> tuple[int, str, bytes]:
    """Status, header ``Date`` and body, read within ``_PLATFORM_S`` from the first byte of the handshake on."""
    with (
        socket.create_connection((connection.host, connection.port), timeout=_PLATFORM_S) as plain,
        plain.dup() as same,  # wrapping detaches the other one
        hung_up_after(same, _PLATFORM_S) as is_over,
        closing(connection),
    ):
        connection.sock = context.wrap_socket(plain, server_hostname=connection.host)
        connection.request(method, path, body=body or None)
        response = connection.getresponse()
        answer = response.read(_MAX_BYTES + 1)
    if is_over.is_set():  # an answer without a length ends where its connection does
        raise TimeoutError(f"no whole answer within {_PLATFORM_S:g} s")
    return response.status, response.getheader("Date", ""), answer


def download(url: str, target: Path, *, size: int, until: float) -> bool:
    """Download into a file; whether as many bytes came as were signed for. The caller checks the hash.

    Args:
        size: Bytes that were signed for; a byte more, and it is abandoned.
        until: Moment of ``time.monotonic`` at which it has to be over.
    """
    import http.client  # noqa: PLC0415 - as above
    import ssl  # noqa: PLC0415 - as above

    parts = urlsplit(url)
    left_s = until - time.monotonic()
    if left_s <= 0 or parts.hostname is None:
        return False
    connection = http.client.HTTPConnection(parts.netloc)
    try:
        with _connected(parts, min(_DOWNLOAD_STEP_S, left_s)) as opened, hung_up_after(opened, left_s):
            if isinstance(opened, ssl.SSLSocket):
                opened.do_handshake()
            connection.sock = opened
            connection.request("GET", f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/")
            return _copied(connection.getresponse(), target, size) and time.monotonic() < until
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def _connected(parts: SplitResult, timeout_s: float) -> socket.socket:
    """A connection to the host of a link, before its handshake."""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    opened = socket.create_connection((parts.hostname or "", port), timeout=timeout_s)
    if parts.scheme != "https":
        return opened
    import ssl  # noqa: PLC0415 - as above

    context = ssl.create_default_context()
    return context.wrap_socket(opened, server_hostname=parts.hostname, do_handshake_on_connect=False)


def _copied(answer: "HTTPResponse", target: Path, size: int) -> bool:
    if answer.status != HTTPStatus.OK:
        return False
    got = 0
    with target.open("wb") as out:
        while piece := answer.read1(min(_PIECE, size + 1 - got)):
            out.write(piece)
            got += len(piece)
    return got == size
