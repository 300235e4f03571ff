"""What asks the model router on a machine trusts it as the agent does."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hermesops.access.pki.authority import Authority
from hermesops.machines.verify.on_machine import observer
from hermesops.platform.parts.tls import server_pair
from tests.support.fakes.credentials import authority_in


class _Router(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "gpt-4o"}]}')

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return authority_in(tmp_path)


@pytest.fixture
def router(authority: Authority, tmp_path: Path) -> Iterator[str]:
    """URL of one whose certificate the environment's authority has signed."""
    owned_certificate = server_pair(authority, ["127.0.0.1"])
    pair = tmp_path / "pair.pem"
    pair.write_text(owned_certificate.pem + owned_certificate.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Router) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def _asked(url: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    provider = {"base_url": url, "key_env": "TOKEN", **({"ssl_ca_cert": trusted} if trusted else {})}
    config = {"model": {"default": "gpt-4o", "provider": "custom:helium"}, "providers": {"helium": provider}}
    monkeypatch.setattr(observer, "read", lambda _: json.dumps(config))
    return observer.model({"TOKEN": "t"})


def test_a_router_of_the_environments_authority_is_trusted_by_the_agents_file(
    authority: Authority, router: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = tmp_path / "authorities.crt"
    trusted.write_text(authority.certificate)
    observation = _asked(router, str(trusted), monkeypatch)
    assert (observation["router_status"], observation["offered"]) == (200, ["gpt-4o"])


@pytest.mark.parametrize("trusted", ["", "nowhere.crt"])
def test_without_that_file_it_is_not(router: str, trusted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observation = _asked(router, trusted, monkeypatch)
    assert observation["router_status"] == 0
    assert "CERTIFICATE_VERIFY_FAILED" in str(observation["reason"])


def test_a_users_own_provider_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = {"base_url": "https://api.openai.com/v1", "key_env": "OWN"}
    config = {"model": {"default": "gpt-5.2", "provider": "custom:own"}, "providers": {"own": provider}}
    monkeypatch.setattr(observer, "read", lambda _: json.dumps(config))

    def ask(*_: object, **__: object) -> tuple[int, dict[str, object]]:
        raise AssertionError("asked")

    monkeypatch.setattr(observer, "ask", ask)
    observation = observer.model({"OWN": "sk-proj-0123456789"})
    assert (observation["name"], observation["own"], observation["has_key"]) == ("gpt-5.2", True, True)
    assert "sk-proj-0123456789" not in str(observation)
    assert observer.chat("s1") == {"own": True}, "and takes no turn, which it would bill"
