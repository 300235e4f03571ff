"""Getting a file of a release from where it is stored: as many bytes as were signed for, within a time, from that host.

No redirect is followed: what was signed for is at the link itself, and the file is brought by the controller otherwise.
"""

import http.client
import socket
import ssl
import time
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from hermesops.node.system.socket_deadline import hung_up_after

ALL_S = 300.0
"""Seconds for all downloads of one fetch, which holds the machine's lock of releases meanwhile."""

_STEP_S = 30.0
"""Seconds for a connection, and for each read."""

_PIECE = 1 << 20


def download(url: str, target: Path, *, size: int, until: float) -> bool:
    """Put what a link leads to into a file; whether it came, of the right size. Nothing says yet that it is the file.

    Args:
        url: Where it is.
        target: Takes it.
        size: Bytes that were signed for; a byte more, and it is left.
        until: Moment of ``time.monotonic`` at which it has to be over.
    """
    parts = urlsplit(url)
    left_s = until - time.monotonic()
    if left_s <= 0 or parts.hostname is None:
        return False
    connection = http.client.HTTPConnection(parts.netloc)
    try:
        with _connected(parts, min(_STEP_S, left_s)) as opened, hung_up_after(opened, left_s):
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
    """A connection to whoever a link names; a handshake is still to come."""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    opened = socket.create_connection((parts.hostname or "", port), timeout=timeout_s)
    if parts.scheme != "https":
        return opened
    context = ssl.create_default_context()
    return context.wrap_socket(opened, server_hostname=parts.hostname, do_handshake_on_connect=False)


def _copied(answer: http.client.HTTPResponse, target: Path, size: int) -> bool:
    if answer.status != http.client.OK:
        return False
    got = 0
    with target.open("wb") as out:
        while piece := answer.read1(min(_PIECE, size + 1 - got)):
            out.write(piece)
            got += len(piece)
    return got == size
