"""Every client and the command line, in shells whose variables say how other hosts are reached."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest

from hermesops.base import child_environment
from tests.support.network.clients import ANSWERED

pytestmark = pytest.mark.turns(20)

ROOT = Path(__file__).parents[3]
DEAD = "http://127.0.0.1:9"
NETRC = "default login operator password canary\n"
ANSWER = {"result": "pass", "status": "success", "data": {"resultType": "vector", "result": [{}]}}
FOREIGN = "https://vendor.invalid"


@dataclass
class Listener:
    """This computer's own service, or a proxy that lets nobody through: it notes what it was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def service() -> Iterator[Listener]:
    yield from _listening(200)


@pytest.fixture
def proxy() -> Iterator[Listener]:
    yield from _listening(403)


def _listening(status: int) -> Iterator[Listener]:
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listener.asked.append(f"{self.command} {self.path}")
            listener.logins += [text for text in [self.headers.get("Authorization", "")] if text.startswith("Basic ")]
            body = json.dumps(ANSWER).encode()
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    for method in ("POST", "HEAD", "CONNECT"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield listener
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a gRPC service."""
    server = grpc.server(ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(lambda *_: ANSWERED.encode())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def run(program: str, cases: list[Any], home: Path) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.support.network.{program}"],
        input=json.dumps(cases),
        env=child_environment.made(added={"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: list[Any] = json.loads(done.stdout)
    return answer


def test_no_variable_changes_how_this_computer_is_asked(
    service: Listener, proxy: Listener, echo: str, tmp_path: Path
) -> None:
    """Neither a proxy, nor authorities, nor a profile, nor passwords of other programs."""
    (tmp_path / ".netrc").write_text(NETRC)
    (tmp_path / ".netrc").chmod(0o600)
    gone = str(tmp_path / "gone")
    shells = [
        dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"), proxy.url),
        dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY"), proxy.url),
        {"http_proxy": proxy.url, "no_proxy": "corp"},
        {"https_proxy": proxy.url, "NO_PROXY": "localhost,[::1],fd00::/8"},
        {"ALL_PROXY": f"socks5h://127.0.0.1:{proxy.port}"},
        {"http_proxy": "ftp://x:1", "https_proxy": "http://[::1"},
        dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"), gone),
        {"AWS_PROFILE": "gone", "AWS_ENDPOINT_URL": DEAD},
    ]
    for shell, came_to in zip(shells, run("clients", [[s, service.url, echo] for s in shells], tmp_path), strict=True):
        assert set(came_to.values()) == {ANSWERED}, (shell, came_to)
    assert proxy.asked == []
    assert service.logins == [], "a user and password of ~/.netrc were sent"


def test_others_are_asked_through_the_proxy_and_errors_name_it_and_its_variable(
    proxy: Listener, tmp_path: Path
) -> None:
    secret = f"http://user:hunter2@127.0.0.1:{proxy.port}"
    shells = [{"https_proxy": secret}, {"HTTPS_PROXY": DEAD}, {"https_proxy": DEAD, "no_proxy": "vendor.invalid"}]
    refused, dead, excepted = run("clients", [[shell, FOREIGN, ""] for shell in shells], tmp_path)
    for client, words in refused.items():
        assert f"{proxy.url}, which https_proxy names" in words, (client, words)
        assert "hunter2" not in words
    assert set(proxy.asked) == {"CONNECT vendor.invalid:443"}
    assert len(proxy.asked) >= len(refused), "some client passed it by"
    for client, words in dead.items():
        assert f"{DEAD}, which HTTPS_PROXY names" in words, (client, words)
    for client, words in excepted.items():
        assert "proxy" not in words, (client, words)


def test_an_unusable_variable_is_named_by_every_client_that_reads_it(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    shells = [
        {"https_proxy": "http://[::1"},
        {"SSL_CERT_FILE": gone},
        {"REQUESTS_CA_BUNDLE": gone},
        {"AWS_CA_BUNDLE": gone},
        {"https_proxy": "socks5h://x:1"},
    ]
    proxy, file, requests, aws, socks = run("clients", [[shell, FOREIGN, ""] for shell in shells], tmp_path)
    by_httpx, by_requests = {"httpx", "blocking", "monitoring", "hook"}, {"prometheus", "stripe"}
    assert {client for client, words in proxy.items() if "https_proxy is 'http://[::1'" in words} == set(proxy)
    assert {client for client, words in file.items() if f"SSL_CERT_FILE is {gone!r}" in words} == by_httpx
    named = {client for client, words in requests.items() if f"REQUESTS_CA_BUNDLE is {gone!r}" in words}
    assert named == {*by_requests, "store"}
    assert {client for client, words in aws.items() if f"AWS_CA_BUNDLE is {gone!r}" in words} == {"store"}
    assert {client for client, words in socks.items() if "SOCKS proxy" in words} == {*by_requests, "store"}


def test_the_command_line_says_which_variable_is_wrong_and_never_that_it_is_a_bug(tmp_path: Path) -> None:
    """The cases of an operator: with an address of the vendor that nobody answers at, here and elsewhere."""
    empty = tmp_path / "empty.pem"
    empty.write_text("none\n")
    here, elsewhere = "https://127.0.0.1:1", FOREIGN
    look, doctor = ["fleet", "status", "--live"], ["doctor"]
    unusable = {
        "HTTPS_PROXY": ("http://[::1", "ftp://x:1"),
        "SSL_CERT_FILE": (str(tmp_path / "gone"), str(empty)),
        "SSL_CERT_DIR": (str(tmp_path / "gone"),),
    }
    silent = [
        {"NO_PROXY": "localhost,[::1]"},
        {"NO_PROXY": "localhost,fd00::/8"},
        {"ALL_PROXY": "socks5h://127.0.0.1:9"},
        {"SSLKEYLOGFILE": str(tmp_path / "gone" / "k")},
    ]
    wrong = [(name, value) for name, values in unusable.items() for value in values]
    cases = [
        *((here, variables, look) for variables in silent),
        *((elsewhere, {name: value}, look) for name, value in wrong),
        *((elsewhere, {name: value}, doctor) for name, value in wrong),
        (elsewhere, {"https_proxy": DEAD}, look),
        (elsewhere, {"https_proxy": DEAD}, doctor),
    ]
    common = {
        "HERMESOPS_HOME": str(tmp_path / "home"),
        "HERMESOPS_ENV": "staging",
        "HERMESOPS_API_KEY": "sk_x",
    }
    (tmp_path / "home" / "staging").mkdir(parents=True)
    calls = [[{**common, "HERMESOPS_API_URL": f"{url}/api/v1", **more}, words] for url, more, words in cases]
    for (_url, more, words), (code, out, err) in zip(cases, run("shells", calls, tmp_path), strict=True):
        outcome = (more, words, code, out, err)
        assert "bug" not in out + err, outcome
        assert "Traceback" not in err, outcome
        assert '"event"' not in err, outcome
        [(name, value)] = more.items()
        if more in silent:
            assert (code, "not reachable" in err) == (6, True), outcome
        elif value == DEAD:
            assert code == (3 if words == doctor else 6), outcome
            assert f"{DEAD}, which https_proxy names, does not answer" in " ".join((out + err).split()), outcome
            assert "https_proxy" in (out if words == doctor else err.partition("hint:")[2]), outcome
        elif words == doctor:
            assert code == 3, outcome
            assert f"mend or unset {name}" in out, outcome
        else:
            assert (code, f"error: {name} is {value!r}, " in err) == (2, True), outcome
            assert "hermesops --env staging doctor" in err, outcome
