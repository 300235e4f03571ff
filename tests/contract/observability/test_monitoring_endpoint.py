"""hermesops' own processes at the platform's monitoring: over real TLS, by both clients that they have."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
import requests
from cryptography import x509

from hermesops.access.pki.authority import Authority
from hermesops.access.pki.client import client_context
from hermesops.model.access.certificate import CallerName
from hermesops.observability.telemetry.endpoint import CERTIFICATE_S, MonitoringEndpoint
from hermesops.serving.listener import context_of
from hermesops.serving.server import Answer, MutualTlsServer
from tests.support.fakes.credentials import authority_in

HOUR = timedelta(seconds=CERTIFICATE_S)
NAME = CallerName("local", "hermesops")


@dataclass
class Served:
    """A server that says who asked it."""

    authority: Authority
    url: str
    peers: list[str] = field(default_factory=list)

    def answer(self, peer: bytes, _method: str, path: str, _body: bytes) -> Answer:
        self.peers.append(x509.load_der_x509_certificate(peer).subject.rfc4514_string())
        return Answer.of(HTTPStatus.OK, {"path": path})

    def endpoint(self, *, trusts: Authority | None = None) -> MonitoringEndpoint:
        roots = (trusts or self.authority).certificate
        return MonitoringEndpoint(self.url, lambda: client_context(self.authority, NAME, roots=roots, life=HOUR))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    authority = authority_in(tmp_path)
    own = authority.serve(["127.0.0.1"], life=HOUR)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        provisioned_agents = Served(authority, f"https://127.0.0.1:{listener.getsockname()[1]}")

        async def context() -> ssl.SSLContext:
            return context_of(own.pem, own.key, authority.certificate)

        server = asyncio.create_task(MutualTlsServer(provisioned_agents.answer, context).serve(listener))
        yield provisioned_agents
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


def _by_httpx(endpoint: MonitoringEndpoint) -> object:
    with httpx.Client(verify=endpoint.context(), trust_env=False) as client:
        return client.get(f"{endpoint.url}/prometheus").json()


def _by_requests(endpoint: MonitoringEndpoint) -> object:
    with requests.Session() as session:
        session.trust_env = False
        session.mount(endpoint.url, endpoint.adapter())
        return session.get(f"{endpoint.url}/prometheus", timeout=10).json()


@pytest.mark.parametrize("ask", [_by_httpx, _by_requests])
async def test_both_clients_authenticate_as_hermesops(
    served: Served, ask: Callable[[MonitoringEndpoint], object]
) -> None:
    assert await asyncio.to_thread(ask, served.endpoint()) == {"path": "/prometheus"}
    assert served.peers == ["OU=service,O=local,CN=hermesops"]


async def test_both_clients_refuse_a_server_of_another_authority(served: Served, tmp_path: Path) -> None:
    endpoint = served.endpoint(trusts=authority_in(tmp_path, environment="other"))
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        await asyncio.to_thread(_by_httpx, endpoint)
    with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        await asyncio.to_thread(_by_requests, endpoint)
    assert served.peers == []


def test_requests_trusts_no_authority_but_ours(tmp_path: Path) -> None:
    authority = authority_in(tmp_path)
    context = client_context(authority, NAME, roots=authority.certificate, life=HOUR)
    endpoint = MonitoringEndpoint("https://127.0.0.1:1", lambda: context)
    with pytest.raises(requests.ConnectionError):
        _by_requests(endpoint)
    assert context.cert_store_stats()["x509"] == 1


def test_a_certificate_is_made_once_and_again_after_half_its_life(tmp_path: Path) -> None:
    authority, at = authority_in(tmp_path), 0.0
    endpoint = MonitoringEndpoint(
        "https://x", lambda: client_context(authority, NAME, roots=authority.certificate, life=HOUR), lambda: at
    )
    first = endpoint.context()
    at = CERTIFICATE_S / 2 - 1
    assert endpoint.context() is first
    at = CERTIFICATE_S / 2
    assert endpoint.context() is not first
