"""Fetches the revoked certificates from the platform's service and writes them as a map for nginx.

While the service does not answer, the last list stays in force; certificates expire within days.
"""

import http.client
import json
import os
import signal
import ssl
from pathlib import Path
from urllib.parse import urlsplit

_ANSWER_BYTES = 8 << 20
_ANSWER_S = 20.0
_HEX = frozenset("0123456789abcdef")


def fetch(url: str, *, certificate: Path, key: Path, authorities: Path) -> list[str]:
    """Fetch the serials of revoked certificates, in lower-case hexadecimal.

    Raises:
        OSError, http.client.HTTPException: It does not answer, or is not the platform's service.
        ValueError: The answer is malformed.
    """
    context = ssl.create_default_context(cafile=str(authorities))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S, context=context)
    try:
        connection.request("GET", "/v1/revocations")
        answer = connection.getresponse()
        body = answer.read(_ANSWER_BYTES + 1)
    finally:
        connection.close()
    if answer.status != http.client.OK or len(body) > _ANSWER_BYTES:
        raise ValueError(f"it answers {answer.status} and {len(body)} bytes")
    return parse(body)


def parse(body: bytes) -> list[str]:
    """Parse the serials in an answer.

    Raises:
        ValueError: The answer is malformed.
    """
    answer = json.loads(body)
    serials = answer.get("serials") if isinstance(answer, dict) else None
    if not isinstance(serials, list) or not all(
        isinstance(serial, str) and serial and _HEX.issuperset(serial) for serial in serials
    ):
        raise ValueError("the answer is no list of serials")
    return serials


def map_of(serials: list[str]) -> str:
    """The lines of nginx's map: it writes a serial in whole bytes."""
    return "".join(f"{serial.zfill(len(serial) + len(serial) % 2)} 1;\n" for serial in sorted(set(serials)))


def update(file: Path, serials: list[str], nginx: Path) -> bool:
    """Write the map and reload nginx if it changed; return whether it did. The file's time is the last fetch."""
    text = map_of(serials)
    if file.exists() and file.read_text() == text:
        os.utime(file)
        return False
    draft = file.with_name(f".{file.name}")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.replace(file)
    if nginx.exists():
        os.kill(int(nginx.read_text()), signal.SIGHUP)
    return True
