"""A real Alertmanager of Debian's package, below ``/alertmanager`` as the platform has it, and a receiver."""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from hermesops.base import waiting
from tests.support.real import debian
from tests.support.real.ends_with_us import KILLED

_STARTS_S = 60
_LISTENS = re.compile(r'msg="Listening on" address=([0-9.:]+)')
_TEMPLATES = Path("/usr/share/prometheus/alertmanager")
"""Where Debian's Alertmanager reads its templates from; no option changes that."""

_WITH_TEMPLATES = f"""
mount -t tmpfs none /usr/share
mkdir -p {_TEMPLATES}
mount --bind "$1" {_TEMPLATES}
shift
exec "$@"
"""

CONFIG = """
route: {receiver: nobody}
receivers: [{name: nobody}]
inhibit_rules:
- {source_matchers: [alertname="CellLost"], target_matchers: [alertname="GatewayDown"], equal: [cell]}
- {source_matchers: [scope="fleet"], target_matchers: [scope="instance"], equal: [alertname]}
"""


def programs() -> Path | None:
    """The folder with ``prometheus-alertmanager`` and ``amtool``; ``None`` where they are not to be had."""
    return debian.programs("prometheus-alertmanager", "prometheus-alertmanager")


@contextmanager
def running(folder: Path, bin_folder: Path, configuration: str = CONFIG) -> Iterator[str]:
    """Run one; its URL, below which it is at ``/alertmanager``."""
    config = folder / "alertmanager.yml"
    config.write_text(configuration)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *KILLED,
                *_within_templates(bin_folder),
                bin_folder / "prometheus-alertmanager",
                f"--config.file={config}",
                f"--storage.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
                "--web.route-prefix=/alertmanager",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
        try:
            yield _ready(server, folder / "log")
        finally:
            server.terminate()
            server.wait(timeout=20)


@dataclass(frozen=True)
class Notified:
    """One message of Alertmanager's.

    Attributes:
        path: That it was posted to.
        at: Seconds of a clock that only goes forward.
    """

    path: str
    at: float
    body: Mapping[str, Any]

    @property
    def firing(self) -> list[dict[str, str]]:
        """Labels of those that fire."""
        return [alert["labels"] for alert in self.body["alerts"] if alert["status"] == "firing"]


@dataclass(frozen=True)
class Receiver:
    """Takes web hooks.

    Attributes:
        messages: In their order.
    """

    url: str
    messages: list[Notified] = field(default_factory=list)

    def alerts(self, path: str) -> list[str]:
        """Names of those that fired, in the order in which they were told."""
        return [labels["alertname"] for message in self.messages if message.path == path for labels in message.firing]


@contextmanager
def receiving(metrics: Callable[[], str] = str) -> Iterator[Receiver]:
    """Run a receiver on this computer.

    Args:
        metrics: What it answers to whoever scrapes it.
    """
    messages = list[Notified]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages.append(Notified(self.path, time.monotonic(), body))
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(metrics().encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Receiver(f"http://127.0.0.1:{server.server_port}", messages)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _within_templates(bin_folder: Path) -> list[str]:
    """What runs a program in a mount namespace in which an unpacked package's templates are where it looks."""
    if _TEMPLATES.exists():
        return []
    unpacked = str(bin_folder.parent / "share/prometheus/alertmanager")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *user, "sh", "-euc", _WITH_TEMPLATES, "sh", unpacked]


def _ready(server: "subprocess.Popen[bytes]", log: Path) -> str:
    for _ in range(_STARTS_S * 10):
        assert server.poll() is None, log.read_text()
        if match := _LISTENS.search(log.read_text()):
            url = f"http://{match[1]}"
            if _answers(url):
                return url
        waiting.pause_blocking(0.1)
    raise AssertionError(log.read_text())


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/alertmanager/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
