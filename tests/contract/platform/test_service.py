"""The service that machines prove themselves to, over real TLS on loopback, asked by hermes-node's own client."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hermesops.access.pki.authority import Authority, fresh_key, make_root, read_key
from hermesops.access.pki.certificates import Certificates
from hermesops.access.pki.own_certificate import OwnCertificate
from hermesops.access.pki.service import DataKeys, PlatformService
from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.break_glass import BreakGlass
from hermesops.model.access.certificate import CallerName, MachineNames
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import ImageId, InstanceId, MachineId, MachineName
from hermesops.model.plan import Plan
from hermesops.programs.node.instance.certificate import installed
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.orders.poll import clock_offset
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system import https, openssl
from hermesops.serving.listener import Bounds, context_of, host_of
from hermesops.serving.server import MutualTlsServer
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.certificates import MOST_AN_HOUR
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import PATH as ORDERS
from hermesops.wire.documents.orders import Orders, Report, SshHost, SshReport
from hermesops.wire.errors import BadRequestError, NotReadyError
from hermesops.wire.errors import RefusedError as MachineRefusedError
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Credential
from hermesops.wire.tls_key import present
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.fakes.machines.polled_machine import HOST_KEY
from tests.support.fakes.registry import FakeRegistry
from tests.support.real.stores.registries import CELL, TurnedClock, placed, registry_at

MACHINE = MachineId("m-1")
LIFE = timedelta(days=7)
HOST = "127.0.0.1"


class Keys(DataKeys):
    """One volume, of one machine."""

    def __init__(self) -> None: ...

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None) -> bytes:
        assert instance_id is None
        if (volume_id, machine_id) != ("v-1", MACHINE):
            raise RefusedError(f"volume {volume_id} is not machine {machine_id}'s")
        return b'{"key": "canary-volume"}'


class Absent(FakeRegistry):
    """A registry that does not answer."""

    def certificates_find_valid(self, _serial: str) -> None:
        raise UnavailableError("the registry does not answer")


@dataclass
class Served:
    """A running service.

    Attributes:
        key: A machine's.
        request: What it asks with.
    """

    registry: Registry
    clock: TurnedClock
    certificates: Certificates
    authority: Authority
    url: str
    key: bytes
    request: str

    def certified(self, machine_id: MachineId = MACHINE) -> Credential:
        return self.certificates.issue(self.request, machine_id)

    def introduced(self, name: str) -> tuple[Credential, bytes]:
        """What a process of hermesops of that name authenticates with, and its key."""
        owned_certificate = self.authority.introduce(CallerName("local", name), life=LIFE)
        return Credential(
            owned_certificate.pem, self.authority.certificate, self.url, "", 0, 0, ()
        ), owned_certificate.key.encode()

    async def ask(
        self, who: Credential, path: str = "/v1/standing", body: bytes | None = None, key: bytes = b""
    ) -> str:
        method = "GET" if body is None else "POST"
        answer = await asyncio.to_thread(https.ask_platform, who, key or self.key, method, path, body or b"", retry_s=0)
        return answer.decode()


def in_the_pool(registry: Registry) -> MachineName:
    """The name of a machine that is nobody's yet."""
    return registry.unassigned.place(
        MachineRole.WARM,
        plan=Plan.LIGHT,
        server_type="basic",
        image_id=ImageId("i-2"),
        choose=lambda _cells: Placement(CELL, "hel1", only_plan=None),
        why="test",
    ).name


@asynccontextmanager
async def serving(
    folder: Path, clock: TurnedClock, *, registry: Absent | None = None, bounds: Bounds | None = None
) -> AsyncIterator[Served]:
    opened = registry_at(f"sqlite:///{folder}/registry.db", clock=clock)
    authority = Authority.load(fresh_key(), opened, environment="local", source="memory")
    with socket.create_server((HOST, 0)) as listener:
        listener.setblocking(False)
        url = f"https://{HOST}:{listener.getsockname()[1]}"
        certificates = Certificates(opened, lambda: authority, environment="local", url=url, life=LIFE)
        service = PlatformService(registry or opened, certificates, Keys(), environment="local")
        own = OwnCertificate(authority, opened, [HOST], LIFE)
        opened.unassigned.set_machine(in_the_pool(opened), MACHINE)
        server = asyncio.create_task(MutualTlsServer(service.answer, own.context, bounds).serve(listener))
        try:
            key = openssl.make()
            yield Served(opened, clock, certificates, authority, url, key, openssl.request(key).decode())
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
            opened.close()


@pytest.fixture
async def served(tmp_path: Path, clock: TurnedClock) -> AsyncIterator[Served]:
    async with serving(tmp_path, clock) as service:
        yield service


async def test_a_machine_learns_how_it_stands_and_gets_its_key_and_a_fresh_certificate(served: Served) -> None:
    mine = served.certified()
    assert '"machine": "m-1"' in await served.ask(mine)
    assert "canary-volume" in await served.ask(mine, "/v1/data-key/v-1")
    fresh = Credential.from_json((await served.ask(mine, "/v1/certificate", served.request.encode())).encode())
    assert (fresh.names, fresh.url) == (mine.names, served.url)
    assert fresh.serial != mine.serial
    assert '"machine": "m-1"' in await served.ask(fresh)
    assert '"machine": "m-1"' in await served.ask(mine)


async def test_the_installed_certificate_is_what_the_machine_proves_itself_with(served: Served, tmp_path: Path) -> None:
    layout, mine = Layout(tmp_path), served.certified()
    layout.machine_key.parent.mkdir(parents=True)
    with pytest.raises(NotReadyError, match="no certificate yet"):
        installed(Machine(layout, slots=DiskSlots(layout)))
    layout.machine_key.write_bytes(served.key)
    layout.machine_certificate.write_bytes(mine.to_pem())
    layout.authority.write_text(mine.authority)
    credential, key = installed(Machine(layout, slots=DiskSlots(layout)))
    assert b'"m-1"' in await asyncio.to_thread(https.ask_platform, credential, key, "GET", "/v1/standing")


async def test_a_revoked_machine_is_refused_from_the_next_question_on(served: Served) -> None:
    mine = served.certified()
    await served.ask(mine)
    served.registry.certificates.revoke(MACHINE, why="lost")
    for path, body in (
        ("/v1/standing", None),
        ("/v1/data-key/v-1", None),
        ("/v1/certificate", served.request.encode()),
    ):
        with pytest.raises(MachineRefusedError, match="is no longer valid"):
            await served.ask(mine, path, body)
    assert len(served.registry.certificates.list()) == 1


async def test_what_has_run_out_is_refused_by_the_registrys_clock(served: Served) -> None:
    mine = served.certified()
    served.clock.turn(LIFE.total_seconds() - 1)
    await served.ask(mine)
    served.clock.turn(2)
    with pytest.raises(MachineRefusedError, match="is no longer valid"):
        await served.ask(mine)


@pytest.mark.parametrize("seconds", [-120, 120])
async def test_a_clock_that_is_two_minutes_off_hurts_nobody(served: Served, seconds: float) -> None:
    served.clock.turn(seconds)
    await served.ask(served.certified())


async def test_another_machines_volume_stays_shut(served: Served) -> None:
    with pytest.raises(MachineRefusedError, match="not machine m-2's"):
        await served.ask(served.certified(MachineId("m-2")), "/v1/data-key/v-1")
    with pytest.raises(BadRequestError, match="404"):
        await served.ask(served.certified(MachineId("m-2")), "/v1/data-key/../v-1")


async def first(logs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The service's first line of log; it may come after the other side has seen the end of the connection."""

    async def observe() -> Mapping[str, Any] | Pending[Mapping[str, Any]]:
        return logs[0] if logs else Pending("none")

    return await until(observe, what="a line of log", timeout_s=10, every_s=0.01)


async def test_nobody_without_a_certificate_of_ours_gets_an_answer(served: Served, tmp_path: Path) -> None:
    strange = authority_in(tmp_path, environment="elsewhere")
    forged = credential_of(strange, served.request, MachineNames("local", MACHINE), url=served.url)
    with capture_logs() as logs:
        with pytest.raises(NotReadyError, match="does not answer"):
            await served.ask(replace(forged, authority=served.authority.certificate))
        assert (await first(logs))["event"] == "handshake_refused"
    context = ssl.create_default_context(cadata=served.authority.certificate)
    port = int(served.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    output = b""
    with capture_logs() as logs:
        writer.write(b"GET /v1/standing HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(OSError):  # an alert, or the end, as the system has it
            output = await reader.read()
        line = await first(logs)
    assert output == b""
    assert line["event"] == "handshake_refused"
    assert line["why"] == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    writer.close()
    assert '"m-1"' in await served.ask(served.certified())


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (MachineNames("local", MACHINE), "is no longer valid"),
        (MachineNames("staging", MACHINE), "no machine of this environment"),
    ],
    ids=["never written down", "another environment's"],
)
async def test_a_certificate_that_ours_signed_is_not_enough(served: Served, names: MachineNames, why: str) -> None:
    signed = credential_of(served.authority, served.request, names, url=served.url)
    with pytest.raises(MachineRefusedError, match=why):
        await served.ask(signed)


async def test_a_machine_does_not_take_a_stranger_or_another_machine_for_the_platform(
    served: Served, tmp_path: Path
) -> None:
    mine = served.certified()
    other = authority_in(tmp_path, environment="elsewhere").certificate
    with pytest.raises(NotReadyError, match="CERTIFICATE_VERIFY_FAILED"):
        await served.ask(replace(mine, authority=other))

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    posing = context_of(mine.certificate, served.key.decode(), mine.authority)
    async with await asyncio.start_server(hang_up, HOST, 0, ssl=posing) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotReadyError, match="CERTIFICATE_VERIFY_FAILED"):
            await served.ask(replace(mine, url=f"https://{HOST}:{port}"))


async def test_what_is_too_long_or_unknown_or_no_request_is_said(served: Served) -> None:
    mine = served.certified()
    with pytest.raises(BadRequestError, match="404"):
        await served.ask(mine, "/v1/secrets")
    with pytest.raises((BadRequestError, NotReadyError), match=r"413: a body has at most|does not answer"):
        await served.ask(mine, "/v1/certificate", b"x" * (1 << 20))
    with pytest.raises(MachineRefusedError, match="no request"):
        await served.ask(mine, "/v1/certificate", b"x")
    assert '"m-1"' in await served.ask(mine)


async def test_a_machine_fetches_only_so_many(served: Served) -> None:
    mine = served.certified()
    for _ in range(MOST_AN_HOUR - 1):
        await served.ask(mine, "/v1/certificate", served.request.encode())
    with pytest.raises(NotReadyError, match="503"):
        await served.ask(mine, "/v1/certificate", served.request.encode())


async def test_who_is_slow_or_says_nothing_is_hung_up_on_and_keeps_nobody_out(
    tmp_path: Path, clock: TurnedClock
) -> None:
    async with serving(tmp_path, clock, bounds=Bounds(time_s=1.5)) as served:
        mine = served.certified()
        port = int(served.url.rpartition(":")[2])
        silent = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        context = ssl.create_default_context(cadata=mine.authority)
        present(context, served.key, mine.certificate.encode())
        slow_reader, slow = await asyncio.open_connection(HOST, port, ssl=context)
        slow.write(b"POST /v1/certificate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        assert '"m-1"' in await served.ask(mine)
        for reader, writer in (*silent, (slow_reader, slow)):
            assert await reader.read() == b""
            writer.close()


async def test_more_than_it_takes_at_once_are_dropped_and_may_come_again(tmp_path: Path, clock: TurnedClock) -> None:
    async with serving(tmp_path, clock, bounds=Bounds(at_once=2)) as served:
        mine = served.certified()
        port = int(served.url.rpartition(":")[2])
        held = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        with pytest.raises(NotReadyError, match="does not answer"):
            await served.ask(mine)
        for _, writer in held:
            writer.close()
        answer = await asyncio.to_thread(https.ask_platform, mine, served.key, "GET", "/v1/standing", retry_s=30)
        assert b'"m-1"' in answer


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
async def test_a_platform_whose_answer_never_ends_is_given_up(
    served: Served, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermesops.programs.node.system.https._PLATFORM_S", 1.0)

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        with suppress(OSError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.1)  # noqa: TID251 - the other side

    own = OwnCertificate(served.authority, served.registry, [HOST], LIFE)
    slow = await asyncio.start_server(drip, HOST, 0, ssl=await own.context())
    url = f"https://{HOST}:{slow.sockets[0].getsockname()[1]}"
    try:
        with pytest.raises(NotReadyError, match="does not answer"):
            async with asyncio.timeout(20):
                await served.ask(replace(served.certified(), url=url))
    finally:
        slow.close()


async def test_one_host_that_opens_many_connections_keeps_no_other_out(tmp_path: Path, clock: TurnedClock) -> None:
    async with serving(tmp_path, clock, bounds=Bounds(per_host=2, handshake_s=60, time_s=60)) as served:
        mine = served.certified()
        port = int(served.url.rpartition(":")[2])
        held = [await asyncio.open_connection(HOST, port, local_addr=("127.0.0.77", 0)) for _ in range(3)]
        assert await held[2][0].read() == b""
        assert '"m-1"' in await served.ask(mine)
        for _, writer in held:
            writer.close()


async def test_a_connection_that_shows_no_certificate_is_closed_before_the_others(
    tmp_path: Path, clock: TurnedClock
) -> None:
    async with serving(tmp_path, clock, bounds=Bounds(handshake_s=0.5, time_s=3600)) as served:
        reader, writer = await asyncio.open_connection(HOST, int(served.url.rpartition(":")[2]))
        async with asyncio.timeout(30):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_hosts_are_counted_by_what_one_customer_holds(address: str, host: str) -> None:
    assert host_of(address) == host


async def test_a_registry_that_is_away_is_told_as_that(tmp_path: Path, clock: TurnedClock) -> None:
    async with serving(tmp_path, clock, registry=Absent()) as served:
        with pytest.raises(NotReadyError, match=r"503: try again"):
            await served.ask(served.certified())


async def test_two_authorities_are_let_in_side_by_side(served: Served) -> None:
    old = served.certified()
    key = fresh_key()
    served.clock.turn(1)
    served.registry.certificates.trust_authority(make_root(read_key(key, source="x"), "local"))
    new = Authority.load(key, served.registry, environment="local", source="x")
    moved = Certificates(served.registry, lambda: new, environment="local", url=served.url, life=LIFE)
    later = moved.issue(served.request, MACHINE)
    assert later.authority.count("BEGIN CERTIFICATE") == 2
    service = PlatformService(served.registry, moved, Keys(), environment="local")
    with socket.create_server((HOST, 0)) as listener:
        listener.setblocking(False)
        url = f"https://{HOST}:{listener.getsockname()[1]}"
        own = OwnCertificate(new, served.registry, [HOST], LIFE)
        server = asyncio.create_task(MutualTlsServer(service.answer, own.context).serve(listener))
        for who in (replace(old, authority=later.authority), later):
            assert '"m-1"' in await served.ask(replace(who, url=url))
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def test_the_platforms_monitoring_learns_what_was_revoked_and_nothing_more(served: Served) -> None:
    another = openssl.make()
    other = served.certificates.issue(openssl.request(another).decode(), MachineId("m-2"))
    revoked = served.certified()
    assert served.registry.certificates.revoke(MACHINE, why="stolen") == 1
    # Nobody's machine has to know how many certificates of others were revoked, nor may have the list made so often.
    with pytest.raises(BadRequestError, match="there is no GET /v1/revocations"):
        await served.ask(other, "/v1/revocations", key=another)
    own, key = served.introduced("hermesops-platform")
    assert json.loads(await served.ask(own, "/v1/revocations", key=key)) == {"serials": [revoked.serial]}
    with pytest.raises(MachineRefusedError, match="no machine of this environment"):
        await served.ask(own, key=key)
    stranger, key = served.introduced("web")
    with pytest.raises(MachineRefusedError, match="no machine of this environment"):
        await served.ask(stranger, "/v1/revocations", key=key)
    own, key = served.introduced("hermesops-platform")
    served.clock.timestamp = datetime.now(UTC) + LIFE
    with pytest.raises(MachineRefusedError, match="no machine of this environment"):
        await served.ask(own, "/v1/revocations", key=key)


async def test_what_was_revoked_and_has_expired_is_not_told_any_more(served: Served) -> None:
    served.certified()
    served.registry.certificates.revoke(MACHINE, why="stolen")
    served.clock.turn(LIFE.total_seconds() + 1)
    assert served.registry.certificates.list_revoked() == []


async def orders_of(served: Served, who: Credential, report: bytes = b"", *, ingest: str = "") -> Orders:
    service = PlatformService(
        served.registry, served.certificates, Keys(), environment="local", ingest_url=lambda: ingest
    )
    answer = service.answer(x509_der(who), "POST" if report else "GET", ORDERS, report)
    assert answer.status == HTTPStatus.OK, answer.body
    return Orders.from_json(answer.body)


def x509_der(who: Credential) -> bytes:
    return ssl.PEM_cert_to_DER_cert(who.certificate)


async def test_a_machine_is_told_where_metrics_go_and_what_time_it_is(served: Served) -> None:
    mine = served.certified()
    assert await orders_of(served, mine, ingest="https://10.0.0.1:8443") == Orders("https://10.0.0.1:8443")
    answer = await asyncio.to_thread(https.ask_platform_once, mine, served.key, "POST", ORDERS, Report().to_json())
    assert Orders.from_json(answer.body) == Orders()
    assert abs(clock_offset(answer.date, time.time()) or 9) < 5


@pytest.mark.parametrize(
    "report", [b"x", b"{}", b'{"host": {"key": "ssh-ed25519 AAAA", "address": ""}, "break_glass": null}']
)
async def test_a_malformed_report_is_refused(served: Served, report: bytes) -> None:
    with pytest.raises(MachineRefusedError, match="report"):
        await served.ask(served.certified(), ORDERS, report)


async def test_a_machine_is_handed_its_order_and_reports_what_became_of_it(served: Served) -> None:
    before = served.certified()
    ada = served.registry.instances.set_machine(placed(served.registry).id, MACHINE)
    fresh = openssl.request(openssl.make()).decode()
    mine = served.certificates.issue(fresh, MACHINE, cell=ada.cell, instance_id=ada.id)
    now = served.registry.now()
    order = BreakGlass(
        *("0" * 32, ada.id, MACHINE, "text", "signature", "192.0.2.7/32", HOST_KEY, "", "cut", now),
        now + timedelta(minutes=5),
    )
    served.registry.break_glass.add(order)
    handed = Orders("", Signed("text", "signature"))
    assert await orders_of(served, mine) == handed
    report = Report(SshHost(HOST_KEY), SshReport(order.id, "open", address="10.0.0.7")).to_json()
    assert await orders_of(served, mine, report) == handed
    assert served.registry.break_glass.ssh_host(MACHINE) == SshHost(HOST_KEY)
    assert [stored_order.address for stored_order in served.registry.break_glass.list_open()] == ["10.0.0.7"]
    # Both were issued within one tick of the registry's clock, so that neither ends the other.
    assert await orders_of(served, before) == Orders()  # of before it was somebody's


async def test_a_machine_that_polls_with_a_renewed_certificate_ends_the_one_before(served: Served) -> None:
    mine = served.certified()
    served.clock.turn(60)
    fresh = Credential.from_json((await served.ask(mine, "/v1/certificate", served.request.encode())).encode())
    assert '"m-1"' in await served.ask(mine), "until it has installed the new one"
    assert '"m-1"' in await served.ask(fresh), "which it first asks with before it installs it"
    assert '"m-1"' in await served.ask(mine)
    await orders_of(served, fresh)
    with pytest.raises(MachineRefusedError, match="is no longer valid"):
        await served.ask(mine)
    with pytest.raises(MachineRefusedError, match="is no longer valid"):
        await served.ask(mine, "/v1/certificate", served.request.encode())
    assert '"m-1"' in await served.ask(fresh)
