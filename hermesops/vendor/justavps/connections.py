"""HTTP connections of both clients of this package: bounded, with a short timeout to connect, quick to make."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from hermesops.base.network.http import blank_context, client, own_client
from hermesops.base.network.variables import NetworkVariables
from hermesops.vendor.justavps.own_connection import OwnConnection

CONNECT_S = 10.0
_AT_ONCE = 200
_IDLE_S = 3.0
"""Idle connections are dropped before a server does (uvicorn: 5 s), else a change may be sent into a closing one."""

# They log whole addresses, which may have a proxy token in them.
for _talkative in ("httpx", "httpcore"):
    logging.getLogger(_talkative).setLevel(logging.WARNING)


class Closing(ABC):
    """Closes its connections when its async context ends."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections of the pool."""


def http_client(
    url: httpx.URL,
    *,
    headers: Mapping[str, str] | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    alone: bool = False,
) -> httpx.AsyncClient:
    """Make a client for one origin; ``network.http.client`` has the meaning of the operator's variables.

    Args:
        url: The origin; only its scheme matters.
        headers: Sent with every request, beside the one that asks for answers as they are (see ``answer_body``).
        transport: Replaces the network in tests.
        alone: True for one connection a request, without any proxy that variables name; see ``own_connection``.
    """
    common: dict[str, Any] = {
        "headers": {**(headers or {}), "Accept-Encoding": "identity", **({"Connection": "close"} if alone else {})},
        "timeout": httpx.Timeout(30, connect=CONNECT_S),
    }
    if alone and transport is None:
        trusted = NetworkVariables.of_process().tls_context() if url.scheme == "https" else blank_context()
        transport = OwnConnection(trusted)
    if transport is not None:
        return own_client(transport=transport, **common)
    limits = httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=50, keepalive_expiry=_IDLE_S)
    return client(limits=limits, **common)
