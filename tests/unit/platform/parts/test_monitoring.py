"""The platform's monitoring of a local world: what the roles are told, once and again, and when it counts as there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermesops.errors import PartlyDoneError, RefusedError, UnavailableError
from hermesops.localcloud.world.files import WorldFiles
from hermesops.model.ids import is_machine_name, platform_machine_name
from hermesops.platform.host import OPEN_PORTS, ROLES, PlatformHost
from hermesops.platform.parts.monitoring import LocalMonitoring, MonitoringPart, refuse_simulated
from hermesops.vendor.channel import Completed
from hermesops.vendor.justavps import MachineStatus
from tests.support.fakes.credentials import authority_in
from tests.support.fakes.parts import part

HOST = "10.213.0.1"
URL = f"https://{HOST}:18083"
PREFIX = "hermes_platform_monitoring_"


class Host:
    """A world with a vendor, a machine that keeps the files it is told of, and monitoring that answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = authority_in(folder)
        self.world = WorldFiles(folder / "world")
        self.ordered: list[str] = []
        self.extended = 0
        self.told: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.certificates = {"server.crt": "", "client.crt": ""}
        self.loki_fails = False
        self.has_platform = False
        self.fails = False

    async def extend_base(self) -> None:
        assert not self.ordered, "a machine that is ordered before has not the platform's packages"
        self.extended += 1

    async def create_machine(self, order: Any) -> Any:  # noqa: ANN401 - stands for a machine
        self.ordered.append(order.name)
        return part(id="m-1", status=MachineStatus.READY)

    async def get_machine(self, _: str) -> Any:  # noqa: ANN401 - as above
        return part(status=MachineStatus.READY)

    async def run_shell(self, command: str, **_: object) -> Completed:
        if command == "true":
            return Completed(0, b"", b"")
        shown = self.certificates[command.rpartition("/")[2]]
        return Completed(0 if shown else 1, shown.encode(), b"")

    async def converge(self, playbook: str, hosts: Any, *, variables: Mapping[str, Any], **_: object) -> Any:  # noqa: ANN401 - as above
        assert (playbook, hosts[0].groups) == ("platform", ("platforms",))
        self.told.append({name.removeprefix(PREFIX): value for name, value in variables.items()})
        for name, file in (
            ("hermes_platform_tls_certificate", "server.crt"),
            (PREFIX + "client_certificate", "client.crt"),
        ):
            self.certificates[file] = variables[name] or self.certificates[file]

        def require_ok() -> None:
            if self.fails:
                raise PartlyDoneError("a task failed")

        done = {host.name: part(failure=None) for host in hosts}
        return part(require_ok=require_ok, changed=("role : task",), hosts=done)

    async def stack_exists(self) -> bool:
        return self.has_platform

    def part(self, url: str, loki: Path | None) -> MonitoringPart:
        return MonitoringPart(
            environment="local",
            url=url,
            identity_url="https://10.213.0.1:18082",
            loki=loki,
            program=self.folder / "cache" / "hermes-ingest",
            time_scale=0.5,
        )

    async def loki(self) -> Path:
        if self.loki_fails:
            raise UnavailableError("Go cannot be fetched")
        return self.folder / "loki"

    def monitoring(self) -> LocalMonitoring:
        channel: Any = part(run=self.run_shell)
        client: Any = part(create_machine=self.create_machine, get_machine=self.get_machine)
        converger: Any = part(run=self.converge)
        context: Any = lambda: True  # noqa: E731 - httpx takes it for a context
        platform = PlatformHost(
            environment="local",
            channel_to=lambda _: channel,
            converger=converger,
            load_authority=lambda: self.authority,
            variables={"hermes_base_daemon_port": 7070},
            context=context,
            report=self.said.append,
        )
        return LocalMonitoring(
            environment="local",
            world=self.world,
            find_url=lambda: URL,
            has_platform=self.stack_exists,
            client=client,
            host=platform,
            authorities=lambda: self.authority.certificate,
            extend_base=self.extend_base,
            loki=self.loki,
            part=self.part,
            server_type="starter",
            region="hel1",
            report=self.said.append,
        )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    async def get(_: httpx.AsyncClient, url: str, **__: object) -> httpx.Response:
        assert url == f"{URL}/prometheus/-/ready"
        return httpx.Response(200)

    monkeypatch.setattr(httpx.AsyncClient, "get", get)
    return Host(tmp_path)


async def test_the_host_gets_certificates_once_and_keeps_them(host: Host) -> None:
    first = await host.monitoring().up()
    assert (first.machine, first.url, first.logs) == ("hermes-local-platform", URL, True)
    assert (host.world.platform.read_text(), host.world.monitoring.exists()) == ("m-1", True)
    await host.monitoring().up()
    once, again = host.told
    pairs = ("hermes_platform_tls_certificate", "hermes_platform_tls_key", "client_certificate", "client_key")
    assert all(once[name] and not again[name] for name in pairs)
    assert once["ingest"].read_bytes().startswith(b"#!/usr/bin/python3 -I\n")
    assert (once["hermes_base_open_ports"], once["hermes_base_daemon_port"]) == (list(OPEN_PORTS), 7070)
    assert [role for role in ROLES if once[f"{role}_enabled".removeprefix(PREFIX)]] == [
        "hermes_base",
        "hermes_platform_tls",
        "hermes_platform_monitoring",
    ]
    assert host.ordered == [first.machine] * 2
    assert host.extended == 1, "a machine that is there keeps its base"


async def test_what_failed_is_not_there_for_anybody(host: Host) -> None:
    host.fails = True
    with pytest.raises(PartlyDoneError, match="a task failed"):
        await host.monitoring().up()
    assert not host.world.platform.exists()
    assert not host.world.monitoring.exists()


async def test_a_world_with_the_whole_platform_has_monitoring_already(host: Host) -> None:
    host.has_platform = True
    local_monitoring_up = await host.monitoring().up()
    assert (local_monitoring_up.url, local_monitoring_up.changed) == (URL, ())
    assert (host.told, host.ordered) == ([], [])


async def test_without_loki_it_keeps_no_logs_and_says_so(host: Host) -> None:
    host.loki_fails = True
    assert not (await host.monitoring().up()).logs
    assert host.told[0]["loki"] == ""
    assert any("Go cannot be fetched" in line for line in host.said)


async def test_a_server_that_forwards_nothing_to_it_is_refused_before_anything_is_ordered(host: Host) -> None:
    with pytest.raises(UnavailableError, match="older than its monitoring"):
        await replace(host.monitoring(), find_url=str).up()
    assert host.ordered == []


def test_a_simulated_world_is_refused() -> None:
    refuse_simulated(is_simulated=False)
    with pytest.raises(RefusedError, match="simulated"):
        refuse_simulated(is_simulated=True)


def test_the_hosts_name_is_never_an_instances() -> None:
    assert not is_machine_name(platform_machine_name("local"), "local")
    assert str(platform_machine_name("local")) == "hermes-local-platform"
