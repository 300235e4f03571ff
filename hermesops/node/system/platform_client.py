"""The platform's service as a machine reaches it: mutual TLS, the machine's certificate against the authority's.

It must not decide what to ask for. A machine that has no certificate yet has nobody to ask.
"""

import http.client
import json
import random
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from urllib.parse import urlsplit

from hermesops.node.errors import BadRequestError, NotReadyError, RefusedError
from hermesops.node.instance.identity.credential import Credential
from hermesops.node.layout import Layout
from hermesops.node.system import files, openssl
from hermesops.node.system.socket_deadline import hung_up_after

_TRY_S = 10.0
"""Seconds for one try once it is connected, and for connecting."""

PATIENCE_S = 60.0
"""Seconds within which tries are made: the platform may be restarting, or its registry away for a moment."""

_LONGEST_PAUSE_S = 10.0
_MAX_BYTES = 64 * 1024
_AGAIN = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY})


def ask(
    credential: Credential, key: bytes, method: str, path: str, body: bytes = b"", *, patience_s: float = PATIENCE_S
) -> bytes:
    """Ask the platform as the machine of that certificate; the same again is harmless for everything that it serves.

    Args:
        credential: Who asks, whom it trusts, and where the platform is.
        key: Of the certificate.
        method: ``GET`` or ``POST``.
        path: From ``/v1`` on.
        body: What is sent.
        patience_s: For how long tries are made.

    Raises:
        RefusedError: The platform refuses this machine.
        BadRequestError: It does not know what is asked for.
        NotReadyError: It does not answer, or cannot now.
    """
    deadline, pause_s = time.monotonic() + patience_s, 1.0
    while True:
        try:
            return _once(credential, key, method, path, body)
        except NotReadyError:
            # Up to as much again: a fleet that lost its platform for a moment must not come back as one.
            wait_s = pause_s * random.uniform(1, 2)  # noqa: S311 - spreads load, guards nothing
            if time.monotonic() + wait_s > deadline:
                raise
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _once(credential: Credential, key: bytes, method: str, path: str, body: bytes) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the other side and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    where = urlsplit(credential.url)
    try:
        context.load_verify_locations(cadata=credential.authority)
        openssl.present(context, key, credential.certificate.encode())
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context)
        status, answer = _exchanged(connection, context, method, path, body)
    except (OSError, http.client.HTTPException) as error:
        raise NotReadyError(f"the platform at {credential.url} does not answer: {_words(error)}") from error
    if status == HTTPStatus.OK and len(answer) <= _MAX_BYTES:
        return answer
    said = f"the platform says {status}: {_told(answer)}"
    if status == HTTPStatus.FORBIDDEN:
        raise RefusedError(said)
    raise NotReadyError(said) if status in _AGAIN else BadRequestError(said)


def _exchanged(
    connection: http.client.HTTPSConnection, context: ssl.SSLContext, method: str, path: str, body: bytes
) -> tuple[int, bytes]:
    """Status and body, read within ``_TRY_S`` from the first byte of the handshake on."""
    with (
        socket.create_connection((connection.host, connection.port), timeout=_TRY_S) as plain,
        plain.dup() as same,  # wrapping takes the other one away
        hung_up_after(same, _TRY_S) as is_over,
        closing(connection),
    ):
        connection.sock = context.wrap_socket(plain, server_hostname=connection.host)
        connection.request(method, path, body=body or None)
        response = connection.getresponse()
        answer = response.read(_MAX_BYTES + 1)
    if is_over.is_set():  # an answer without a length ends where its connection does
        raise TimeoutError(f"no whole answer within {_TRY_S:g} s")
    return response.status, answer


class Platform:
    """The platform as this machine asks it, with what is installed.

    Args:
        layout: Where the machine's certificate is.
        patience_s: For how long tries are made.
    """

    def __init__(self, layout: Layout, *, patience_s: float = PATIENCE_S) -> None:
        self._layout = layout
        self._patience_s = patience_s

    def get(self, path: str) -> bytes:
        """What the platform answers; see ``ask``.

        Raises:
            NotReadyError: This machine has no certificate yet, or nobody answers.
            RefusedError: The platform refuses this machine.
        """
        credential, key = installed(files.read, self._layout)
        return ask(credential, key, "GET", path, patience_s=self._patience_s)


def installed(read: Callable[..., bytes | None], layout: Layout) -> tuple[Credential, bytes]:
    """The machine's certificate and its key.

    Raises:
        NotReadyError: It has none yet.
    """
    held = tuple(read(path) for path in (layout.machine_certificate, layout.authority, layout.machine_key))
    if None in held:
        raise NotReadyError("this machine has no certificate yet: hermesops identity renew gives it one")
    certificate, authority, key = (part or b"" for part in held)
    return Credential.from_pem(certificate, authority), key


def _told(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return "nothing that could be read"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
