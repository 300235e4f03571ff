"""The platform's monitoring on loopback: the services of role hermes_platform_monitoring, with its own files.

Debian's programs run as the role's units start them, with ports and folders of a test.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from hermesops.access.pki.authority import Authority
from hermesops.access.pki.client import client_context
from hermesops.base import assets, waiting
from hermesops.model.access.certificate import CallerName, MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.observability.alerts.rules import deployed
from hermesops.platform.parts.tls import CERTIFICATE_LIFE
from hermesops.programs.ingest import build
from hermesops.programs.node.system import openssl
from tests.support.fakes.credentials import LIFE, authority_in
from tests.support.real.debian import PLATFORM, unpacked
from tests.support.real.ends_with_us import INTERRUPTED
from tests.support.real.monitoring import host_figures
from tests.support.real.monitoring.host_figures import HostFigures
from tests.support.releases.role_files import defaults_of, rendered

ROLE = "hermes_platform_monitoring"
ENVIRONMENT = "local"

_STARTS_S = 60.0


@dataclass(frozen=True)
class Client:
    """What authenticates to the platform, as PEM files of a folder.

    Attributes:
        names: Of a machine; ``None`` for a service.
    """

    certificate: Path
    key: Path
    authorities: Path
    serial: str
    names: MachineNames | None = None

    def http(self, url: str, *, timeout_s: float = 20.0) -> httpx.Client:
        """A client of that certificate."""
        import ssl  # noqa: PLC0415 - beside its only use

        context = ssl.create_default_context(cafile=str(self.authorities))
        context.load_cert_chain(self.certificate, self.key)
        return httpx.Client(base_url=url, verify=context, trust_env=False, timeout=timeout_s)


@dataclass
class PlatformHost:
    """Running services.

    Attributes:
        url: Of nginx.
        ports: Of the services on loopback, by name.
        start: Starts a service that has ended, once more.
        figures: What its exporter and a model router say.
    """

    folder: Path
    url: str
    ports: Mapping[str, int]
    authority: Authority
    processes: dict[str, "subprocess.Popen[bytes]"]
    variables: Mapping[str, Any]
    start: Callable[[str], None]
    figures: HostFigures

    def stop(self, name: str) -> None:
        """End a service."""
        _end(self.processes[name])

    def certify(self, files: Path) -> None:
        """Give the host the server's certificate and key of a folder, as role hermes_platform_tls does."""
        for name in ("server.key", "server.crt"):
            (self.folder / "settings/tls" / name).write_bytes((files / name).read_bytes())
        self.processes["nginx"].send_signal(signal.SIGHUP)

    def has_router(self) -> None:
        """Have Prometheus ask for a router's figures, too, as role hermes_platform_llm_router does."""
        labels = {"service": "router", "__metrics_path__": host_figures.ROUTER}
        self.asks("router", self.ports["host"], [labels])

    def asks(self, role: str, port: int, targets: Sequence[Mapping[str, str]]) -> None:
        """Have Prometheus ask on a port of loopback, too, by the labels of each target."""
        listed = [{"targets": [f"127.0.0.1:{port}"], "labels": dict(labels)} for labels in targets]
        (self.folder / f"settings/scraped-{role}.json").write_text(json.dumps(listed))

    def machine(
        self, *, cell: str = "cell1", instance: str = "", of: Authority | None = None, environment: str = ENVIRONMENT
    ) -> Client:
        """A machine of an instance, by default a new one; or, without a cell, of nobody."""
        whose = InstanceId(instance or str(uuid4())) if cell else None
        names = MachineNames(environment, MachineId(str(uuid4())), CellName(cell) if cell else None, whose)
        authority, key = of or self.authority, openssl.make()
        issued = authority.issue(openssl.request(key).decode(), names, now=datetime.now(UTC), life=LIFE)
        return self._client(issued.pem, key.decode(), issued.serial, names)

    def service(self, name: str) -> Client:
        """A service of that name."""
        certificate = self.authority.introduce(CallerName(ENVIRONMENT, name), life=timedelta(hours=1))
        return self._client(certificate.pem, certificate.key, "", None)

    def reader(self) -> httpx.Client:
        """hermesops' own process."""
        context = client_context(
            self.authority,
            CallerName(ENVIRONMENT, "hermesops"),
            roots=self.authority.certificate,
            life=timedelta(hours=1),
        )
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=30)

    def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """What Prometheus answers, asked through nginx."""
        with self.reader() as reader:
            answer = reader.get("/prometheus/api/v1/query", params={"query": promql})
            assert answer.status_code == 200, answer.text
            return [(sample["metric"], float(sample["value"][1])) for sample in answer.json()["data"]["result"]]

    def log(self, name: str) -> str:
        """What a service said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _client(self, certificate: str, key: str, serial: str, names: MachineNames | None) -> Client:
        folder = self.folder / "clients" / str(uuid4())
        folder.mkdir(parents=True)
        files = {"crt": certificate, "key": key, "authorities": self.authority.certificate}
        for name, text in files.items():
            (folder / name).write_text(text)
        return Client(folder / "crt", folder / "key", folder / "authorities", serial, names)


def programs() -> Path | None:
    """The root of Debian's programs; ``None`` where they are not to be had."""
    return unpacked(*PLATFORM)


@contextmanager
def running(
    folder: Path,
    root: Path,
    *,
    loki: Path | None = None,
    variables: Mapping[str, Any] | None = None,
    authority: Authority | None = None,
    life: timedelta = CERTIFICATE_LIFE,
) -> Iterator[PlatformHost]:
    """Run the services; gone afterwards.

    Args:
        authority: Of the environment; ``None`` makes one.
        life: Of the host's own certificate.
    """
    authority = authority or authority_in(folder, environment=ENVIRONMENT)
    ports = _free_ports("nginx", "prometheus", "alertmanager", "loki", "loki_grpc", "ingest", "host")
    url = f"https://127.0.0.1:{ports['nginx']}"
    own = authority.serve(["127.0.0.1"], life=life)
    shown = {"hermes_platform_tls_certificate": own.pem, "hermes_platform_tls_key": own.key}
    given = _variables(folder, authority, ports, url, loki, {**shown, **(variables or {})})
    _lay(folder, given)
    environment = {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu"), "PATH": os.defpath}
    names = ["prometheus", "alertmanager", *(["loki"] if loki else []), "ingest", "nginx"]
    with ExitStack() as stack:
        processes: dict[str, subprocess.Popen[bytes]] = {}

        def start(name: str) -> None:
            words = _command(name, given, root)
            log = stack.enter_context((folder / f"{name}.log").open("ab"))
            processes[name] = subprocess.Popen(
                [*INTERRUPTED, *words], stdout=log, stderr=log, cwd=folder, env=environment
            )
            stack.callback(_end, processes[name])

        figures = stack.enter_context(host_figures.answering(ports["host"]))
        host = PlatformHost(folder, url, ports, authority, processes, given, start, figures)
        for name in names:
            start(name)
        for name in names:
            _await(host, name)
        yield host


def _variables(
    folder: Path,
    authority: Authority,
    ports: Mapping[str, int],
    url: str,
    loki: Path | None,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    client = authority.introduce(CallerName(ENVIRONMENT, "hermesops-platform"), life=LIFE)
    prefix = ROLE + "_"
    return {
        **defaults_of(ROLE),
        f"{prefix}environment": ENVIRONMENT,
        f"{prefix}url": url,
        f"{prefix}port": ports["nginx"],
        f"{prefix}client_certificate": client.pem,
        f"{prefix}client_key": client.key,
        "hermes_platform_tls_authorities": authority.certificate,
        f"{prefix}identity_url": "https://127.0.0.1:1",  # nobody is asked: tests write the list
        f"{prefix}loki": str(loki or ""),
        f"__{prefix}has_loki": bool(loki),
        f"__{prefix}settings": str(folder / "settings"),
        f"__{prefix}programs": str(folder / "programs"),
        f"__{prefix}data": str(folder / "data"),
        f"__{prefix}ports": dict(ports),
        f"__{prefix}socket": str(folder / "ingest.sock"),
        f"__{prefix}revoked": str(folder / "data/revocations/revoked.map"),
        f"__{prefix}nginx_run": str(folder / "run"),
        f"__{prefix}nginx_data": str(folder / "nginx"),
        **more,
    }


def _lay(folder: Path, given: Mapping[str, Any]) -> None:
    """The files of the role."""
    for name in ("settings/tls", "settings/rules", "programs", "run", "nginx", "data/revocations"):
        (folder / name).mkdir(parents=True)
    for name in ("prometheus", "alertmanager", "loki"):
        (folder / "data" / name).mkdir()
    tls = {
        "server.crt": "hermes_platform_tls_certificate",
        "server.key": "hermes_platform_tls_key",
        "authorities.crt": "hermes_platform_tls_authorities",
        "client.crt": f"{ROLE}_client_certificate",
        "client.key": f"{ROLE}_client_key",
    }
    for name, variable in tls.items():
        (folder / "settings/tls" / name).write_text(given[variable])
    (folder / "data/revocations/revoked.map").touch()
    for name in ("nginx.conf", "prometheus.yml", "alertmanager.yml", "loki.yml"):
        (folder / "settings" / name).write_text(rendered(ROLE, f"{name}.j2", given))
    for rules in (assets.folder("roles") / ROLE / "files/rules").glob("*.yml"):
        text = deployed(rules.read_text(), scale=given[f"{ROLE}_time_scale"], runbooks_url="")
        (folder / "settings/rules" / rules.name).write_text(text)
    build.write(folder / "programs/hermes-ingest")
    if loki := given[f"{ROLE}_loki"]:
        (folder / "programs/loki").symlink_to(loki)


def _command(name: str, given: Mapping[str, Any], root: Path) -> list[str]:
    """What the unit runs."""
    unit = rendered(ROLE, f"hermes-platform-{name}.service.j2", given).replace("\\\n", " ")
    match = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert match, unit
    words = shlex.split(match[1])
    if words[0].startswith("/usr/"):
        words[0] = str(root / words[0].lstrip("/"))
    if name == "ingest":
        words = [sys.executable, "-I", *words]
    if name == "alertmanager":
        words = _with_shared_files(root, words)
    return [*words, "-g", "user root;"] if name == "nginx" else words


def _with_shared_files(root: Path, words: Sequence[str]) -> list[str]:
    """The command in a mount namespace that has the package's files in /usr/share, the one place it looks at."""
    mount = f"mount -t overlay overlay -o lowerdir={root}/usr/share:/usr/share /usr/share"
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", *words]


def _free_ports(*names: str) -> dict[str, int]:
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in names}
        return {name: int(socket_.getsockname()[1]) for name, socket_ in sockets.items()}


def _await(host: PlatformHost, name: str) -> None:
    path = {"ingest": "/metrics", "loki": "/ready"}.get(name, "/-/ready")
    for _ in range(int(_STARTS_S * 10)):
        assert host.processes[name].poll() is None, host.log(name)
        if _answers(host, name, path):
            return
        waiting.pause_blocking(0.1)
    raise AssertionError(host.log(name))


def _answers(host: PlatformHost, name: str, path: str) -> bool:
    if name == "nginx":
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", host.ports["nginx"])) == 0
    try:
        return httpx.get(f"http://127.0.0.1:{host.ports[name]}{path}", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=20)
