"""Fetches upstream's list of tags, bounded in size and time."""

import time
from http import HTTPStatus

import httpx

from hermesops.base.network.http import blocking_client
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.capabilities.upstream import LARGEST
from hermesops.wire.foreign_text import one_line

_WITHIN_S = 30.0
_AGAIN = Hint("fetch the list by other means and name the file:", ("release", "check-upstream", "FILE"))


def is_address(source: str) -> bool:
    """Whether a source is an address, not a file."""
    return source.startswith(("https://", "http://"))


def fetch(url: str) -> bytes:
    """Fetch a list; follows no redirect, and takes no credentials from the operator's files.

    Raises:
        RefusedError: It is too large, or its address is not plain HTTPS (HTTP is for this computer alone).
        UnavailableError: It does not come within 30 s.
    """
    address = httpx.URL(url) if url.isprintable() else httpx.URL("")
    if address.scheme != "https" and address.host not in {"127.0.0.1", "::1", "localhost"}:
        raise RefusedError(f"{one_line(url, longest=100)} is not encrypted", hint=Hint("name an https address"))
    if address.userinfo:
        raise RefusedError("an address with a password is not fetched", hint=Hint("name it without one"))
    until, data = time.monotonic() + _WITHIN_S, b""
    try:
        headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "hermesops"}
        with (
            blocking_client(timeout=_WITHIN_S, follow_redirects=False) as client,
            client.stream("GET", address, headers=headers) as response,
        ):
            if response.status_code != HTTPStatus.OK:
                raise UnavailableError(f"{address.host} answers {response.status_code}", hint=_AGAIN)
            for piece in response.iter_raw(65536):
                data += piece
                if len(data) > LARGEST:
                    raise RefusedError(f"{address.host} sends more than {LARGEST >> 20} MiB", hint=_AGAIN)
                if time.monotonic() > until:
                    raise UnavailableError(f"{address.host} takes more than {_WITHIN_S:g} s", hint=_AGAIN)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(f"{address.host} does not answer: {one_line(str(error))}", hint=_AGAIN) from error
    return data
