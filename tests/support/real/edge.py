"""The platform's public door on loopback: nginx with the file of role hermes_platform_edge."""

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.base import waiting
from tests.support.fakes.credentials import LIFE, authority_in
from tests.support.real.ends_with_us import INTERRUPTED
from tests.support.releases.role_files import rendered

ROLE, HOST = "hermes_platform_edge", "127.0.0.1"
_STARTS_S = 20.0


@dataclass(frozen=True)
class Edge:
    """A running nginx.

    Attributes:
        authorities: That signed its certificate, PEM.
        asked_port: Of loopback, at which Prometheus asks.
    """

    port: int
    authorities: str
    asked_port: int
    address: str = HOST

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    def context(self) -> ssl.SSLContext:
        """TLS of a client that trusts it."""
        return ssl.create_default_context(cadata=self.authorities)


def free_port() -> int:
    """A TCP port of loopback that nobody has."""
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def running(
    folder: Path,
    root: Path,
    sockets: Sequence[Path],
    variables: Mapping[str, object] | None = None,
    *,
    at: tuple[str, int] | None = None,
) -> Iterator[Edge]:
    """Run nginx before these sockets; gone afterwards.

    Args:
        root: Of Debian's programs.
        variables: Of the role.
        at: Address and port at which it listens; without, a port of loopback.
    """
    address, port = at or (HOST, free_port())
    asked_port = free_port()
    authority = authority_in(folder)
    own = authority.serve([address], life=LIFE)
    for name, text in (("server.crt", own.pem), ("server.key", own.key)):
        (folder / "tls").mkdir(exist_ok=True)
        (folder / "tls" / name).write_text(text)
    given: dict[str, Any] = {
        f"{ROLE}_port": f"{address}:{port}",
        f"__{ROLE}_asked_port": asked_port,
        f"__{ROLE}_of_connections": str(folder / "connections.sock"),
        f"__{ROLE}_of_connector": str(folder / "connector.sock"),
        f"__{ROLE}_of_console": str(folder / "console.sock"),
        f"__{ROLE}_settings": str(folder),
        f"__{ROLE}_run": str(folder),
        f"__{ROLE}_api": [str(path) for path in sockets],
        **(variables or {}),
    }
    file = folder / "edge-nginx.conf"
    file.write_text(rendered(ROLE, "edge-nginx.conf.j2", given))
    environment = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu"), "PATH": os.defpath}
    words = [*INTERRUPTED, str(root / "usr/sbin/nginx"), "-e", "stderr", "-c", str(file), "-g", "user root;"]
    with (folder / "nginx.log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        for _ in range(int(_STARTS_S * 20)):
            assert process.poll() is None, (folder / "nginx.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex((address, port)) == 0:
                    break
            waiting.pause_blocking(0.05)
        yield Edge(port, authority.certificate, given[f"__{ROLE}_asked_port"], address)
    finally:
        process.terminate()
        process.wait(timeout=20)
