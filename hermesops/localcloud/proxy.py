"""The authenticated proxy: ``{port}--{slug}.localhost`` is a port of a machine, ``{slug}.localhost`` its daemon.

It must not look at what it carries, and never logs a path: browser links hold the token.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs

import httpcore
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.localcloud import tokens
from hermesops.localcloud.broker import Broker
from hermesops.localcloud.fault_kinds import FaultKind
from hermesops.localcloud.faults import Faults
from hermesops.localcloud.forward import Headers, forward
from hermesops.localcloud.problem import Problem, not_found
from hermesops.localcloud.rows import MachineRow, Wanted
from hermesops.localcloud.store import Store

_HOST = re.compile(r"(?:(?P<port>[0-9]{1,5})--)?(?P<slug>[a-z0-9][a-z0-9-]*)\.localhost(?::[0-9]+)?")
_PORTS = range(1, 65536)
_HEADER = b"x-proxy-token"


@dataclass(frozen=True)
class Target:
    """What a name of the proxy stands for; ``port`` is ``None`` for the daemon itself."""

    slug: str
    port: int | None


def target_of(host: str) -> Target | None:
    """Read a Host header; ``None`` when it is not one of the proxy's names."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return None
    return Target(match["slug"], int(match["port"]) if match["port"] else None)


class Proxy:
    """Serves the proxy's names and passes every other host on to the API.

    Args:
        api: Serves the other hosts.
        store: Machines and tokens.
        broker: The way to the machines.
        faults: What goes wrong on order.
    """

    def __init__(self, api: ASGIApp, store: Store, broker: Broker, faults: Faults) -> None:
        self._api = api
        self._store = store
        self._broker = broker
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = dict(scope["headers"])
        target = target_of(headers.get(b"host", b"").decode("latin-1"))
        if target is None:
            await self._api(scope, receive, send)
            return
        try:
            machine = self._admit(target, _token_of(scope, headers))
            scope["localcloud"] = {"machine": machine.names}
            await self._pass_on(machine, target, scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)

    def _admit(self, target: Target, token: str) -> MachineRow:
        found = self._store.find(MachineRow, slug=target.slug)
        if not found or found[0].wanted == Wanted.DELETED or (target.port is not None and target.port not in _PORTS):
            raise not_found("Machine")
        machine = found[0]
        tokens.check(self._store, machine.id, token)
        if self._faults.take(FaultKind.PROXY_UNAUTHORISED, (machine.id, machine.name, machine.slug)):
            raise Problem(401, "Missing, expired or revoked proxy token")
        return machine

    async def _pass_on(self, machine: MachineRow, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        seen_as = [
            (b"x-forwarded-host", dict(scope["headers"])[b"host"]),
            (b"x-forwarded-proto", b"http"),
            (b"x-forwarded-for", str((scope.get("client") or ("",))[0]).encode()),
        ]

        async def ask(headers: Headers, body: AsyncIterator[bytes] | None) -> httpcore.Response:
            if target.port is None:
                return await self._broker.ask_daemon(machine.id, scope["method"], path, headers, body)
            return await self._broker.ask_port(machine.id, target.port, scope["method"], path, headers + seen_as, body)

        ours = frozenset({_HEADER, b"authorization"} if target.port is None else {_HEADER})
        await forward(scope, receive, send, ask, drop=ours)


def _token_of(scope: Scope, headers: dict[bytes, bytes]) -> str:
    if _HEADER in headers:
        return headers[_HEADER].decode("latin-1")
    # The query stays as it is, this token included: so does the vendor, and services behind it must expect that.
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("__proxy_token", [""])[0]
