"""A real Alertmanager of Debian's package, below ``/alertmanager`` as the platform has it."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from hermesops import waiting
from tests.support.real import debian

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
"""


def programs() -> Path | None:
    """The folder with ``prometheus-alertmanager`` and ``amtool``; ``None`` where they are not to be had."""
    return debian.programs("prometheus-alertmanager", "prometheus-alertmanager")


@contextmanager
def running(folder: Path, bin_folder: Path) -> Iterator[str]:
    """Run one; its URL, below which it is at ``/alertmanager``."""
    config = folder / "alertmanager.yml"
    config.write_text(CONFIG)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
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
        if found := _LISTENS.search(log.read_text()):
            url = f"http://{found[1]}"
            if _answers(url):
                return url
        waiting.pause_blocking(0.1)
    raise AssertionError(log.read_text())


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/alertmanager/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
