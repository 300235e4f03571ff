"""Role hermes_monitoring on one booted machine, lean and then full; the tests build on each other, in this order.

The platform is a stand-in on this computer that lets machines in by their certificate and remembers what they send.
"""

import json
import os
import shlex
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import HermesError
from hermesops.machines.converge import HostResult
from hermesops.model.ids import MachineId
from hermesops.programs.node.system import openssl
from hermesops.vendor.channel import Channel
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.real.ingest import LOGS, WRITE, Ingest, ingest_at
from tests.support.real.monitoring.loki import loki, source_of
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(100)]

ROLE = ("hermes_monitoring",)
PORT = 18080
"""The one port of this computer that these machines may reach."""

WORDS = "the words of a user"
_ARRIVES_S = 60.0
_LIFE = timedelta(days=1)

_GATEWAY = f"""#!/bin/sh
echo "WARNING gateway.run: refused {WORDS}" >&2
echo "ERROR tools.registry: {WORDS}" >&2
echo "Traceback: {WORDS}" >&2
echo "{WORDS}"
"""


@dataclass
class Watched:
    """A machine, and the platform's stand-in."""

    world: ConvergedWorld
    machine_id: MachineId
    ingest: Ingest
    variables: dict[str, object]

    @property
    def channel(self) -> Channel:
        return self.world.channel(self.machine_id)

    async def apply(self, profile: str, *, check: bool = False, **more: object) -> HostResult:
        variables = {**self.variables, "hermes_monitoring_profile": profile, **more}
        return await self.world.apply(self.machine_id, ROLE, variables, check=check)

    async def run(self, command: str, *, timeout_s: float = 60) -> str:
        done = await self.channel.run(command, timeout_s=timeout_s)
        assert done.exit_code == 0, f"{command}: {done.text} {done.stderr.decode()}"
        return done.text

    async def certify(self) -> str:
        """Give the machine a certificate, as hermes-node puts it there; its serial, as ``ssl`` spells it."""
        key = openssl.make()
        authority = authority_in(self.world.folder)
        held = credential_of(authority, openssl.request(key).decode(), url=self.ingest.url)
        await self.run("install -d -m 0700 /etc/hermes-node")
        for name, content in (
            ("machine.key", key),
            ("authority.crt", held.authority.encode()),
            ("machine.crt", held.to_pem()),
        ):
            await self.channel.put(f"/etc/hermes-node/{name}.new", content, mode=0o600)
            await self.run(f"mv /etc/hermes-node/{name}.new /etc/hermes-node/{name}")
        return held.serial.upper().rjust(len(held.serial) + len(held.serial) % 2, "0")

    async def told(self, url: str) -> None:
        """Have hermes-node say where the platform is; empty: nowhere."""
        file = "/etc/hermes-monitoring/ingest.env"
        await self.run(f"echo HERMES_INGEST_URL={url} >{file}" if url else f"rm -f {file}")
        await self.run("systemctl restart hermes-monitoring.target")

    async def units(self) -> dict[str, str]:
        """The state of each service of the role that is running or failed."""
        output = await self.run("systemctl list-units --plain --no-legend 'hermes-*.service'")
        ours = ("node-exporter", "prometheus", "loki", "vmagent", "syslog")
        states = {line.split()[0]: line.split()[3] for line in output.splitlines()}
        return {name: state for name, state in states.items() if name[7:-8] in ours}

    async def log(self, text: str, *, unit: str = "hermes-probe", script: str = "") -> None:
        """Have a unit write a line, or what a script writes."""
        await self.channel.put(
            "/run/probe.sh", (script or f"#!/bin/sh\necho {shlex.quote(text)}\n").encode(), mode=0o755
        )
        await self.run(f"systemd-run --quiet --wait --unit={unit} --description=Probe /run/probe.sh")

    async def logql(self, query: str) -> list[str]:
        output = await self.run(
            f"curl -sfG http://127.0.0.1:3100/loki/api/v1/query_range --data-urlencode {shlex.quote('query=' + query)}"
        )
        result: list[dict[str, Any]] = json.loads(output)["data"]["result"]
        return [line for stream in result for _, line in stream["values"]]

    async def promql(self, query: str) -> list[dict[str, Any]]:
        output = await self.run(
            f"curl -sfG http://127.0.0.1:9090/api/v1/query --data-urlencode {shlex.quote('query=' + query)}"
        )
        series: list[dict[str, Any]] = json.loads(output)["data"]["result"]
        return series


async def arrives(check: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait until something has come."""

    async def look() -> bool | Pending[bool]:
        checked = check()
        return True if (checked if isinstance(checked, bool) else await checked) else Pending("nothing yet")

    await until(look, what=what, timeout_s=_ARRIVES_S)


@contextmanager
def mirror(folder: Path, address: str) -> Iterator[str]:
    """A web server of a folder's files, on the one port that machines may reach; its URL."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer((address, PORT), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://{address}:{PORT}"
        finally:
            server.shutdown()
            serving.join()


def _unless_unreachable(check: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        try:
            return await check()
        except HermesError:
            return False

    return reached


@pytest.fixture(scope="module")
def program() -> Path:
    require(os.geteuid() == 0, "root")
    return loki()


@pytest.fixture(scope="module")
async def machine(program: Path) -> AsyncIterator[Watched]:
    async with converged_world() as world, world.machine() as machine_id:
        authority = authority_in(world.folder)
        own = authority.serve([str(world.driver.gateway)], life=_LIFE)
        address = str(world.driver.gateway)
        completed = await world.channel(machine_id).run("useradd --system hermes")
        assert completed.exit_code == 0
        async with ingest_at(address, PORT, own, authority.certificate, world.folder) as ingest:
            variables = {
                "hermes_monitoring_scrape_seconds": 1,
                "hermes_monitoring_loki_sources": [source_of(program)],
            }
            yield Watched(world, machine_id, ingest, variables)


async def test_check_mode_works_before_the_first_run(machine: Watched) -> None:
    for profile in ("lean", "full"):
        tried = await machine.apply(profile, check=True)
        assert tried.status == "done", tried.failure
    assert (await machine.channel.run("test -e /etc/hermes-monitoring -o -e /opt/hermes/monitoring")).exit_code == 1


async def test_lean_converges_and_a_second_run_changes_nothing(machine: Watched) -> None:
    first = await machine.apply("lean")
    assert first.status == "done", first.failure
    second = await machine.apply("lean")
    assert (second.status, second.changed) == ("done", ())


async def test_nothing_sends_before_the_platform_said_where_to(machine: Watched) -> None:
    assert await machine.units() == {"hermes-node-exporter.service": "running"}
    await machine.certify()
    await machine.run("systemctl restart hermes-monitoring.target")
    assert await machine.units() == {"hermes-node-exporter.service": "running"}


async def test_the_exporter_answers_with_the_nodes_own_metrics(machine: Watched) -> None:
    await machine.run("echo 'hermes_agent_up 1' >/run/hermes-metrics/hermes.prom")
    shown = await machine.run("curl -sf http://127.0.0.1:9100/metrics")
    assert "\nhermes_agent_up 1\n" in shown
    for collector in ("cpu", "filesystem", "loadavg", "meminfo", "systemd", "textfile"):
        assert f'node_scrape_collector_success{{collector="{collector}"}} 1' in shown
    assert 'node_systemd_unit_state{name="hermes-node-exporter.service",state="active",type="simple"} 1' in shown
    assert "node_network" not in shown


async def test_lean_sends_metrics_and_logs_as_this_machine(machine: Watched) -> None:
    await machine.log("from before")
    await pause(1.1)  # the first start counts in whole seconds
    serial = await machine.certify()
    await machine.told(machine.ingest.url)
    assert set(await machine.units()) == {f"hermes-{name}.service" for name in ("node-exporter", "vmagent", "syslog")}
    await arrives(lambda: machine.ingest.has_metric("hermes_agent_up"), "metrics")
    await machine.log('with "quotes", a \\ and ä')
    line = ({"unit": "hermes-probe.service", "priority": "info"}, 'with "quotes", a \\ and ä')
    await arrives(lambda: line in machine.ingest.lines(), "a line")
    assert "from before" not in str(machine.ingest.lines())
    assert {received.serial for received in machine.ingest.received} == {serial}
    # Newer vmagents ask by a query first which form of the protocol is taken.
    assert {received.path.partition("?")[0] for received in machine.ingest.received} == {WRITE, LOGS}


async def test_no_text_of_a_user_leaves_the_machine(machine: Watched) -> None:
    await machine.log("", unit="hermes-gateway", script=_GATEWAY)
    await machine.log("", unit="hermes-sandbox@3-7", script=_GATEWAY)
    await machine.run(
        f"runuser -u hermes -- logger {shlex.quote(WORDS)}; logger --tag hermes-node {shlex.quote(WORDS)}"
    )
    await machine.log("the last one")
    await arrives(lambda: any(line == "the last one" for _, line in machine.ingest.lines()), "the last line")
    of_gateway = [line for labels, line in machine.ingest.lines() if labels["unit"] == "hermes-gateway.service"]
    assert {"WARNING gateway.run", "ERROR tools.registry"} <= set(of_gateway)
    assert WORDS in await machine.run("journalctl --no-pager --output=cat")
    assert all(WORDS not in line for _, line in machine.ingest.lines())
    assert {label for labels, _ in machine.ingest.lines() for label in labels} == {"unit", "priority"}
    assert not [labels for labels, _ in machine.ingest.lines() if "3-7" in labels["unit"]]


async def test_what_timers_do_every_minute_is_no_news(machine: Watched) -> None:
    await machine.log("from the service itself", unit="hermes-metrics")
    await machine.log("the one after it")
    await arrives(lambda: any(line == "the one after it" for _, line in machine.ingest.lines()), "the last line")
    of_metrics = [line for labels, line in machine.ingest.lines() if labels["unit"] == "hermes-metrics.service"]
    assert of_metrics == ["from the service itself"]


async def test_nothing_listens_beyond_loopback(machine: Watched) -> None:
    assert await listening(machine) <= {"127.0.0.1:9100"}


async def listening(machine: Watched) -> set[str]:
    output = await machine.run("ss --no-header --listening --tcp --udp --numeric | awk '{print $5}'")
    address, port = machine.world.driver.daemon_address(machine.machine_id)
    return set(output.split()) - {f"{address}:{port}", "0.0.0.0:22", "[::]:22"}


async def test_the_agents_user_reads_no_credential_and_writes_no_metric(machine: Watched) -> None:
    for command in (
        "cat /run/credentials/hermes-vmagent.service/machine.key",
        "cat /run/credentials/hermes-syslog.service/machine.key",
        "cat /run/hermes-syslog/syslog-ng.conf",
        "touch /run/hermes-metrics/other.prom",
        "touch /run/hermes-metrics/hermes.prom",
    ):
        assert (await machine.channel.run(f"runuser -u hermes -- {command}")).exit_code != 0, command
    assert "PRIVATE KEY" in await machine.run("cat /run/credentials/hermes-vmagent.service/machine.key")


async def test_a_fresh_certificate_is_used_at_once(machine: Watched) -> None:
    serial = await machine.certify()
    await machine.log("after the certificate")

    def both() -> bool:
        return all(any(received.serial == serial for received in machine.ingest.of(path)) for path in (WRITE, LOGS))

    await arrives(both, "metrics and logs")


async def test_what_is_not_taken_waits_and_comes_later(machine: Watched) -> None:
    await machine.ingest.close()
    await machine.run("echo 'hermes_agent_up 0\nhermes_queue_age_seconds 77' >/run/hermes-metrics/hermes.prom")
    await machine.log("while the platform was gone")
    await pause(5)
    assert set((await machine.units()).values()) == {"running"}
    await machine.run("rm /run/hermes-metrics/hermes.prom")
    before = len(machine.ingest.received)
    await pause(3)
    await machine.ingest.open()
    assert len(machine.ingest.received) == before
    await arrives(lambda: machine.ingest.has_metric("hermes_queue_age_seconds"), "what waited")
    await arrives(lambda: any(line == "while the platform was gone" for _, line in machine.ingest.lines()), "the line")


async def test_lean_carries_its_limits(machine: Watched) -> None:
    units = ("node-exporter", "vmagent", "syslog")
    caps = [await machine.run(f"systemctl show -P MemoryMax hermes-{unit}.service") for unit in units]
    assert [int(cap) >> 20 for cap in caps] == [64, 96, 64]
    assert f"-remoteWrite.maxDiskUsagePerURL={512 << 20}" in await machine.run("ps -C vmagent -o args=")


async def test_full_takes_leans_place(machine: Watched) -> None:
    first = await machine.apply("full")
    assert first.status == "done", first.failure
    second = await machine.apply("full")
    assert (second.status, second.changed) == ("done", ())
    kept = await machine.apply("keep", hermes_monitoring_loki_sources=[])
    assert (kept.status, kept.changed) == ("done", ())
    wanted = {f"hermes-{name}.service": "running" for name in ("node-exporter", "prometheus", "loki", "syslog")}
    assert await machine.units() == wanted
    assert (await machine.channel.run("ls /etc/systemd/system/hermes-vmagent.service")).exit_code != 0
    assert await listening(machine) == {f"127.0.0.1:{port}" for port in (9100, 9090, 3100, 9095)}


async def test_full_keeps_metrics_on_the_machine(machine: Watched) -> None:
    await machine.run("echo 'hermes_agent_up 1' >/run/hermes-metrics/hermes.prom")

    async def has_it() -> bool:
        return bool(await machine.promql('hermes_agent_up{job="node"} == 1 and on() up{job="node"} == 1'))

    await arrives(has_it, "a sample")


async def test_full_keeps_logs_on_the_machine(machine: Watched) -> None:
    await machine.log('here and "there"')

    async def has_it() -> bool:
        return await machine.logql('{unit="hermes-probe.service"} |= "here and"') == ['here and "there"']

    await arrives(has_it, "a line")
    assert await machine.logql(f'{{unit=~".+"}} |= "{WORDS}"') == []


async def test_full_sends_as_well(machine: Watched) -> None:
    machine.ingest.received.clear()
    await arrives(lambda: machine.ingest.has_metric("hermes_agent_up"), "metrics")
    await machine.log("full as well")
    await arrives(lambda: any(line == "full as well" for _, line in machine.ingest.lines()), "a line")


async def test_a_platform_that_is_gone_keeps_nothing_from_the_machine(machine: Watched) -> None:
    await machine.ingest.close()
    await machine.run("echo 'hermes_queue_age_seconds 99' >/run/hermes-metrics/hermes.prom")
    await machine.log("the platform is gone")

    async def has_both() -> bool:
        lines = await machine.logql('{unit="hermes-probe.service"} |= "is gone"')
        return bool(lines and await machine.promql("hermes_queue_age_seconds == 99"))

    await arrives(has_both, "both here")
    machine.ingest.received.clear()
    await machine.ingest.open()
    await arrives(lambda: machine.ingest.has_metric("hermes_queue_age_seconds"), "what waited")
    await arrives(lambda: any(line == "the platform is gone" for _, line in machine.ingest.lines()), "the line")


async def test_a_platform_that_refuses_for_a_while_gets_it_later(machine: Watched) -> None:
    machine.ingest.status = 429
    await machine.log("too many")
    await arrives(lambda: any(line == "too many" for _, line in machine.ingest.lines()), "a refused line")
    machine.ingest.received.clear()
    machine.ingest.status = 204
    await arrives(lambda: any(line == "too many" for _, line in machine.ingest.lines()), "the same line")


async def test_without_the_platform_full_goes_on_by_itself(machine: Watched) -> None:
    await machine.told("")
    machine.ingest.received.clear()
    await machine.log("to nobody else")

    async def has_it() -> bool:
        return bool(await machine.logql('{unit="hermes-probe.service"} |= "to nobody"'))

    await arrives(has_it, "a line")
    assert set((await machine.units()).values()) == {"running"}
    assert machine.ingest.received == []


async def test_everything_is_back_after_a_reboot(machine: Watched) -> None:
    await machine.told(machine.ingest.url)
    before = await machine.run("cat /proc/sys/kernel/random/boot_id")
    await machine.world.cloud.http.post(f"/api/v1/machines/{machine.machine_id}/reboot")

    async def rebooted() -> bool:
        done = await machine.channel.run(
            "cat /proc/sys/kernel/random/boot_id; systemctl is-active hermes-syslog.service"
        )
        return done.text.split()[0] != before.strip() and "\nactive" in done.text

    await arrives(_unless_unreachable(rebooted), "the boot")
    machine.ingest.received.clear()
    await arrives(lambda: machine.ingest.has_metric("node_load1"), "metrics after the boot")
    assert await machine.logql('{unit="hermes-probe.service"} |= "to nobody"')


async def test_only_loki_that_was_asked_for_is_installed(machine: Watched, program: Path) -> None:
    await machine.run("rm -f /opt/hermes/monitoring/loki*")
    none = await machine.apply("full", hermes_monitoring_loki_sources=[])
    assert none.failure
    assert "hermes_monitoring_loki_sources" in none.failure.message
    other = machine.world.folder / "other"
    other.write_text("#!/bin/sh\necho 'loki 2.4.7: linkage analysis'\n")
    wrong = {**source_of(program), "path": str(other)}
    refused = await machine.apply("full", hermes_monitoring_loki_sources=[wrong, source_of(other)])
    assert refused.failure
    assert "Loki" in refused.failure.task
    again = await machine.apply("full", hermes_monitoring_loki_sources=[wrong, source_of(program)])
    assert again.status == "done", again.failure


async def test_loki_comes_from_the_first_address_that_has_it(machine: Watched, program: Path) -> None:
    """A mirror that lacks it, one that has something else, and then Grafana's own form: a zip."""
    await machine.told("")
    await machine.ingest.close()
    served = machine.world.folder / "mirror"
    served.mkdir()
    (served / "other").write_text("something else")
    with zipfile.ZipFile(served / "loki.zip", "w") as archive:
        archive.write(program, "loki-linux-amd64")
    digest = source_of(served / "loki.zip")["sha256"]
    with mirror(served, machine.ingest.address) as url:
        sources = [{"url": f"{url}/{name}", "sha256": digest} for name in ("absent", "other", "loki.zip")]
        await machine.run("rm -f /opt/hermes/monitoring/loki*")
        done = await machine.apply("full", hermes_monitoring_loki_sources=sources)
        assert done.status == "done", done.failure
        again = await machine.apply("full", hermes_monitoring_loki_sources=sources)
        assert (again.status, again.changed) == ("done", ())
    assert (await machine.run("ls /opt/hermes/monitoring")).split() == ["loki", "loki.sha256", "run"]
    assert "loki, version" in await machine.run("/opt/hermes/monitoring/loki -version 2>&1")
