"""The platform's monitoring with real services on loopback: who writes what, and what one machine can do to another.

nginx, Prometheus and Alertmanager are Debian's, unpacked; they and hermes-ingest run as the role's units start them.
"""

import gzip
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from hermesops.automation.monitor.metrics.exposition import Exposition, series
from hermesops.automation.monitor.metrics.heartbeats import METRIC, QUERY, Heartbeat, parse
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.base import waiting
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.platform.parts.tls import CERTIFICATE_LIFE
from hermesops.programs.ingest.nginx import Nginx
from hermesops.programs.ingest.remote_write import compress, encode_labels, encode_sample, encode_series, varint
from hermesops.programs.ingest.revocations import update
from hermesops.programs.ingest.server import HostFigures
from tests.support.fakes.credentials import authority_in
from tests.support.real.monitoring.loki import loki
from tests.support.real.monitoring.platform_host import Client, PlatformHost, programs, running
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(110)

FLOOD_S = 6.0


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformHost]:
    require(os.geteuid() == 0, "root")
    root = programs()
    require(root, "Debian's packages of nginx, Prometheus and Alertmanager")
    assert root
    with running(tmp_path_factory.mktemp("platform"), root, loki=loki()) as started:
        yield started


def body(metric: str, *labels: tuple[str, str], at_s: float | None = None, value: float = 1.0) -> bytes:
    at = int((time.time() if at_s is None else at_s) * 1000)
    named = [(name.encode(), text.encode()) for name, text in [("__name__", metric), *labels]]
    return encode_series(encode_labels(named), [encode_sample(value, at)])


def write(host: PlatformHost, who: Client, *series: bytes) -> int:
    with who.http(host.url) as client:
        return client.post("/ingest/write", content=compress(b"".join(series))).status_code


def fresh() -> str:
    """A metric that no other test has."""
    return f"hermes_test_{uuid4().hex[:12]}"


def holders(host: PlatformHost, metric: str) -> list[dict[str, str]]:
    """The labels of a metric's series, without its name."""
    documents = [labels for labels, _ in host.query(metric)]
    return [{name: text for name, text in labels.items() if name != "__name__"} for labels in documents]


def own(who: Client) -> dict[str, str]:
    assert who.names
    named = {"instance_id": who.names.instance_id, "cell": who.names.cell, "machine": who.names.machine_id}
    return {name: str(text) for name, text in named.items() if text}


def test_a_machine_writes_as_itself_and_so_does_one_without_a_user(host: PlatformHost) -> None:
    metric, ada, pooled = fresh(), host.machine(), host.machine(cell="")
    assert write(host, ada, body(metric, ("job", "node"))) == 204
    assert write(host, pooled, body(metric)) == 204
    assert sorted(holders(host, metric), key=len) == [own(pooled), {"job": "node", **own(ada)}]


def test_a_machine_that_writes_as_another_is_stored_as_itself(host: PlatformHost) -> None:
    metric, ada, mallory = fresh(), host.machine(), host.machine()
    assert write(host, mallory, body(metric, *own(ada).items())) == 204
    assert holders(host, metric) == [own(mallory)]
    with mallory.http(host.url) as client:
        headers = {f"X-Hermes-{name}": text for name, text in (("Instance", own(ada)["instance_id"]), ("Machine", "m"))}
        answer = client.post("/ingest/write?extra_label=instance_id=x", content=compress(body(metric)), headers=headers)
    assert answer.status_code == 204
    assert holders(host, metric) == [own(mallory)]


def test_labels_that_are_twice_there_are_refused_and_hold_up_nobody(host: PlatformHost) -> None:
    metric, ada, mallory = fresh(), host.machine(), host.machine()
    twice = body(metric, ("instance_id", own(ada)["instance_id"]), ("instance_id", "x"))
    assert write(host, mallory, twice, body(metric, ("good", "1"))) == 204
    assert write(host, ada, body(metric)) == 204
    assert holders(host, metric) == [{"good": "1", **own(mallory)}, own(ada)] or holders(host, metric) == [
        own(ada),
        {"good": "1", **own(mallory)},
    ]


def test_a_sample_a_year_ahead_keeps_nobody_else_from_writing(host: PlatformHost) -> None:
    metric, ada, mallory = fresh(), host.machine(), host.machine()
    year = 365 * 86400
    assert write(host, mallory, body(metric, at_s=time.time() + year)) == 204
    assert write(host, mallory, body(metric, at_s=time.time() - year)) == 204
    assert write(host, ada, body(metric)) == 204
    assert {each["machine"] for each in holders(host, metric)} == {own(ada)["machine"], own(mallory)["machine"]}


def test_a_request_that_is_repeated_changes_nothing_and_an_old_one_neither(host: PlatformHost) -> None:
    metric, ada, mallory = fresh(), host.machine(), host.machine()
    now = time.time()
    first, second = body(metric, at_s=now - 60, value=1), body(metric, at_s=now, value=2)
    for request in (first, second, first, second, first):
        assert write(host, mallory, request) == 204
        assert write(host, ada, body(metric)) == 204
    counted = host.query(f'count_over_time({metric}{{machine="{own(mallory)["machine"]}"}}[5m])')
    assert [value for _, value in counted] == [2.0]
    latest = host.query(f'{metric}{{machine="{own(mallory)["machine"]}"}}')
    assert [value for _, value in latest] == [2.0]
    contradicts = body(metric, at_s=now, value=3)
    assert write(host, mallory, contradicts) == 400
    assert write(host, ada, body(metric)) == 204


def test_who_was_revoked_is_refused_and_others_go_on(host: PlatformHost) -> None:
    metric, ada, mallory = fresh(), host.machine(), host.machine()
    assert write(host, mallory, body(metric)) == 204
    folder = host.folder
    assert update(folder / "data/revocations/revoked.map", [mallory.serial], folder / "run/nginx.pid")
    try:
        refused = 0
        for _ in range(10):  # nginx's process of before may take a connection more; below the rate that it is held to
            refused = refused + 1 if write(host, mallory, body(metric)) == 403 else 0
            waiting.pause_blocking(0.1)
        assert refused > 5
        assert write(host, ada, body(metric)) == 204
    finally:
        update(folder / "data/revocations/revoked.map", [], folder / "run/nginx.pid")


def test_who_is_of_another_authority_or_environment_or_has_no_certificate_is_refused(
    host: PlatformHost, tmp_path: Path
) -> None:
    stranger = host.machine(of=authority_in(tmp_path, environment="local"))
    assert write(host, stranger, body(fresh())) == 400
    assert write(host, host.machine(environment="staging"), body(fresh())) == 403
    context = ssl.create_default_context(cafile=str(stranger.authorities))
    with httpx.Client(verify=context, trust_env=False) as nobody:
        assert nobody.post(f"{host.url}/ingest/write", content=b"").status_code == 400


@pytest.mark.parametrize(
    ("path", "method", "machine", "web", "hermesops"),
    [
        ("/ingest/write", "POST", 400, 403, 403),
        ("/ingest/write", "GET", 403, 403, 403),
        ("/ingest/import", "POST", 403, 204, 204),
        ("/prometheus/api/v1/query?query=up", "GET", 403, 403, 200),
        ("/prometheus/api/v1/write", "POST", 404, 404, 404),
        ("/prometheus/api/v1/admin/tsdb/snapshot", "POST", 404, 404, 404),
        ("/prometheus/-/reload", "POST", 404, 404, 404),
        ("/prometheus/-/quit", "POST", 404, 404, 404),
        ("/prometheus/../ingest/write", "GET", 403, 403, 403),
        ("/alertmanager/api/v2/alerts", "GET", 403, 403, 200),
        ("/alertmanager/api/v2/alerts", "POST", 403, 403, 403),
        ("/alertmanager/api/v2/silences", "GET", 403, 403, 200),
        ("/alertmanager/api/v2/silence/00000000-0000-4000-8000-000000000000", "DELETE", 403, 403, 500),
        ("/loki/api/v1/push", "POST", 404, 404, 404),
        ("/loki/api/v1/delete", "POST", 404, 404, 404),
        ("/", "GET", 404, 404, 404),
    ],
)
def test_everybody_reaches_what_is_theirs(
    host: PlatformHost, path: str, method: str, machine: int, web: int, hermesops: int
) -> None:
    clients = (host.machine(), host.service("web"), host.service("hermesops"))
    answers = []
    for who in clients:
        with who.http(host.url) as client:
            answers.append(client.request(method, path).status_code)
    assert answers == [machine, web, hermesops]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/prometheus/api/v1/query?query=up", 200),
        ("GET", "/alertmanager/api/v2/alerts", 200),
        ("GET", "/alertmanager/api/v2/silences", 200),
        ("DELETE", "/alertmanager/api/v2/silence/00000000-0000-4000-8000-000000000000", 403),
        ("POST", "/alertmanager/api/v2/silences", 403),
        ("GET", "/loki/api/v1/labels", 403),
        ("GET", "/loki/ready", 403),
    ],
)
def test_the_served_console_shows_figures_and_alerts_silences_none_and_reads_no_log(
    host: PlatformHost, method: str, path: str, status: int
) -> None:
    with host.service("hermesops-console").http(host.url) as client:
        assert client.request(method, path).status_code == status


def test_a_service_imports_under_its_own_name(host: PlatformHost) -> None:
    with host.service("hermesops-monitor").http(host.url) as client:
        text = 'hermesops_cell_expected{cell="a",source="other"} 3\n'
        assert client.post("/ingest/import", content=text).status_code == 204
        answer = client.post("/ingest/import", content="good 1\nbad\n")
    assert (answer.status_code, answer.text) == (400, "line 2 is no sample")
    assert holders(host, "hermesops_cell_expected") == [{"cell": "a", "source": "hermesops-monitor"}]


def test_a_silence_is_made_and_ended_by_hermesops(host: PlatformHost) -> None:
    silence = {
        "matchers": [{"name": "alertname", "value": "Watchdog", "isRegex": False, "isEqual": True}],
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "2126-01-01T00:00:00Z",
        "createdBy": "ada",
        "comment": "test",
    }
    with host.reader() as client:
        response = client.post("/alertmanager/api/v2/silences", json=silence)
        assert response.status_code == 200, response.text
        assert client.delete(f"/alertmanager/api/v2/silence/{response.json()['silenceID']}").status_code == 200


def test_a_request_that_is_too_large_or_no_remote_write_is_refused(host: PlatformHost) -> None:
    mallory = host.machine()
    with mallory.http(host.url) as client:
        assert client.post("/ingest/write", content=b"x" * (600 << 10)).status_code == 413
        bomb = b"\xff\xff\xff\xff\x0f" + b"\x00" * 100  # says that it becomes 4 GiB
        answer = client.post("/ingest/write", content=bomb)
        assert (answer.status_code, "would become" in answer.text) == (400, True)
        assert client.post("/ingest/write", content=compress(b"\xff" * 100)).status_code == 400


class Flood:
    """Threads that do something hostile until the block ends, and what they were answered."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self._over = threading.Event()

    @contextmanager
    def of(self, act: Callable[[], int], threads: int) -> Iterator[None]:
        workers = [threading.Thread(target=self._run, args=(act,)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._over.set()
            for worker in workers:
                worker.join(timeout=30)

    def _run(self, act: Callable[[], int]) -> None:
        while not self._over.is_set():
            try:
                self.answers.append(act())
            except httpx.TransportError:
                self.answers.append(0)


def steadily(host: PlatformHost, who: Client, metric: str, seconds: float) -> Sequence[float]:
    """Write as a machine does, only more often; the seconds each write took."""
    took = []
    with who.http(host.url) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            answer = client.post("/ingest/write", content=compress(body(metric)))
            assert answer.status_code == 204, answer.text
            took.append(time.monotonic() - begun)
            waiting.pause_blocking(0.5)  # its burst lasts that long
    return took


def test_a_flood_of_metrics_is_held_to_its_sender(host: PlatformHost, record_property: Callable[..., None]) -> None:
    ada, mallory, metric = host.machine(), host.machine(), fresh()

    bodies = cycle([b"".join(body("hermes_flood", ("n", uuid4().hex)) for _ in range(3000)) for _ in range(8)])
    flood, begun = Flood(), time.monotonic()
    with flood.of(lambda: write(host, mallory, next(bodies)), 3):
        took = steadily(host, ada, metric, FLOOD_S)
    record_property("slowest_write_s", round(max(took), 3))
    assert max(took) < 2.0, took
    assert flood.answers.count(204) <= 16 + (time.monotonic() - begun), "its burst, and then its rate"
    assert set(flood.answers) <= {204, 429}
    [(_, stored)] = host.query(f'count({{machine="{own(mallory)["machine"]}"}})')
    assert stored <= 5000
    assert len(host.query(metric)) == 1


@pytest.mark.parametrize("request_", [b"\x0a\x00" * 2_000_000, b"\x0a\x06\x0a\x04\x0a\x00\x12\x00" * 14_000])
def test_requests_that_are_costly_to_read_are_held_to_their_sender(host: PlatformHost, request_: bytes) -> None:
    ada, mallory, metric = host.machine(), host.machine(), fresh()
    flood = Flood()
    with ExitStack() as stack:
        client = stack.enter_context(mallory.http(host.url))
        small = squeezed(request_)
        with flood.of(lambda: client.post("/ingest/write", content=small).status_code, 3):
            took = steadily(host, ada, metric, FLOOD_S / 2)
    assert max(took) < 2.0, took
    assert set(flood.answers) <= {204, 400, 413, 429}


def squeezed(repeated: bytes) -> bytes:
    """Bytes that repeat, as snappy writes them: small, and large once they are read."""
    copies, at = [], 64
    while at < len(repeated):
        length = min(64, len(repeated) - at)
        copies.append(bytes(((length - 1) << 2 | 2, 56, 0)))
        at += length
    head = varint(len(repeated))
    return head + bytes(((56 - 1) << 2,)) + repeated[:56] + bytes(((8 - 1) << 2 | 2, 56, 0)) + b"".join(copies)


def test_a_request_in_chunks_arrives(host: PlatformHost) -> None:
    metric, ada = fresh(), host.machine()
    with ada.http(host.url) as client:
        assert client.post("/ingest/write", content=iter([compress(body(metric))])).status_code == 204
    assert holders(host, metric) == [own(ada)]


def test_a_storm_of_requests_is_held_to_its_sender(host: PlatformHost) -> None:
    ada, mallory, metric = host.machine(), host.machine(), fresh()
    flood = Flood()
    with ExitStack() as stack:
        client = stack.enter_context(mallory.http(host.url))

        def act() -> int:
            return client.post("/ingest/write", content=b"").status_code

        with flood.of(act, 4):
            took = steadily(host, ada, metric, FLOOD_S)
    assert max(took) < 2.0, took
    assert flood.answers.count(429) > 0.8 * len(flood.answers)


def test_slow_senders_hold_up_nobody_and_are_cut_off(host: PlatformHost) -> None:
    ada, mallory, metric = host.machine(), host.machine(), fresh()
    context = ssl.create_default_context(cafile=str(mallory.authorities))
    context.load_cert_chain(mallory.certificate, mallory.key)
    head = b"POST /ingest/write HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    with ExitStack() as stack:
        slow = []
        for _ in range(40):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", host.ports["nginx"])))
            connection = stack.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1"))
            connection.sendall(head + b"x")
            slow.append(connection)
        took = steadily(host, ada, metric, FLOOD_S)
        assert max(took) < 1.0, took
        for connection in slow:
            connection.settimeout(5)
            assert _ended(connection)


def _ended(connection: ssl.SSLSocket) -> bool:
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def push(
    host: PlatformHost, who: Client, *lines: str, stream: str = "x", at_s: float | None = None, tenant: str = ""
) -> int:
    at = str(int((time.time() if at_s is None else at_s) * 1e9))
    body = {"streams": [{"stream": {"unit": stream}, "values": [[at, line] for line in lines]}]}
    with who.http(host.url) as client:
        return client.post("/ingest/logs", json=body, headers={"X-Scope-OrgID": tenant}).status_code


def logged(host: PlatformHost, tenant: str) -> list[str]:
    """The lines of a tenant, asked as an operator's command asks."""
    with host.reader() as reader:
        answer = reader.get(
            "/loki/api/v1/query_range",
            params={"query": '{unit=~".+"}', "limit": "1000", "since": "1h"},
            headers={"X-Scope-OrgID": tenant},
        )
        assert answer.status_code == 200, answer.text
        return [line for stream in answer.json()["data"]["result"] for _, line in stream["values"]]


def test_logs_go_to_the_senders_own_tenant_whatever_it_says(host: PlatformHost) -> None:
    ada, mallory, pooled = host.machine(), host.machine(), host.machine(cell="")
    assert push(host, ada, "hers") == 204
    assert push(host, mallory, "his", tenant=own(ada)["instance_id"]) == 204
    assert push(host, pooled, "nobody's") == 204
    assert logged(host, own(ada)["instance_id"]) == ["hers"]
    assert logged(host, own(mallory)["instance_id"]) == ["his"]
    assert logged(host, f"machine-{own(pooled)['machine']}") == ["nobody's"]
    assert push(host, host.service("hermesops"), "x") == 403


def test_logs_of_another_time_are_refused(host: PlatformHost) -> None:
    mallory = host.machine()
    assert push(host, mallory, "old", at_s=time.time() - 30 * 86400) == 400
    assert push(host, mallory, "ahead", at_s=time.time() + 86400) == 400
    assert push(host, mallory, "now") == 204


def test_bodies_whose_lines_cannot_be_counted_are_refused(host: PlatformHost) -> None:
    ada = host.machine()
    body = json.dumps({"streams": [{"stream": {"unit": "x"}, "values": [[str(time.time_ns()), ""]]}]}).encode()
    with ada.http(host.url) as client:
        packed = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        assert client.post("/ingest/logs", content=gzip.compress(body), headers=packed).status_code == 400
        assert client.post("/ingest/logs", content=iter([body])).status_code == 403, "chunked: its size is unknown"
        assert client.post("/ingest/logs", content=body, headers={"Content-Type": "text/plain"}).status_code == 204
        assert client.get("/admit-logs").status_code == 404


def test_a_flood_of_logs_is_held_to_its_sender(host: PlatformHost) -> None:
    ada, mallory = host.machine(), host.machine()
    took = []

    def act() -> int:
        return push(host, mallory, *["x" * 1000] * 300, stream=uuid4().hex)

    flood = Flood()
    with flood.of(act, 3):
        end = time.monotonic() + FLOOD_S
        while time.monotonic() < end:
            begun = time.monotonic()
            assert push(host, ada, "hers") == 204
            took.append(time.monotonic() - begun)
            waiting.pause_blocking(0.5)
    assert max(took) < 2.0, took
    assert 429 in flood.answers
    assert flood.answers.count(204) <= 16 + FLOOD_S + 1, "sixteen at once, one a second; Loki's share is larger"
    assert len(logged(host, own(ada)["instance_id"])) == len(took)


def test_connections_that_ask_for_nothing_are_closed_and_harm_nobody(host: PlatformHost) -> None:
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", host.ports["nginx"]), timeout=20))
            for _ in range(300)
        ]
        began = time.monotonic()
        assert write(host, host.machine(), body(fresh())) == 204
        assert {socket.recv(1) for socket in idle} == {b""}
        assert time.monotonic() - began < 15, "five seconds where the computer is idle"


def test_rules_fire_and_alertmanager_hears_of_it(host: PlatformHost) -> None:
    with host.reader() as client:
        for _ in range(1500):  # a group is evaluated first somewhere within its interval of a minute
            if any(
                entry["labels"]["alertname"] == "Watchdog" for entry in client.get("/alertmanager/api/v2/alerts").json()
            ):
                return
            waiting.pause_blocking(0.1)
    raise AssertionError(host.log("prometheus"))


def test_its_own_figures_are_there(host: PlatformHost) -> None:
    assert write(host, host.machine(), body(fresh(), ("twice", "1"), ("twice", "2"))) == 204
    text = httpx.get(f"http://127.0.0.1:{host.ports['ingest']}/metrics", trust_env=False).text
    for name in ("samples_total", "senders", "series", "sender_series_max", 'dropped_total{why="labels"}'):
        assert f"hermes_platform_ingest_{name} " in text
    assert "hermes_platform_revocations_timestamp_seconds " in text
    assert "hermes_platform_nginx_up 1\n" in text
    (ends,) = [line for line in text.splitlines() if line.startswith("hermes_platform_certificate_not_after")]
    assert abs(float(ends.split()[1]) - time.time() - CERTIFICATE_LIFE.total_seconds()) < 3600


def test_nginx_away_is_told_and_no_end_of_its_certificate_is_made_up(tmp_path: Path) -> None:
    figures = HostFigures(Nginx(1, tmp_path / "none"), None)
    assert list(figures.lines()) == ["hermes_platform_nginx_up 0"]


def test_prometheus_away_is_told_to_senders_who_then_repeat(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "root")
    root = programs()
    require(root, "Debian's packages of nginx, Prometheus and Alertmanager")
    assert root
    with running(tmp_path, root) as other:
        other.processes["prometheus"].terminate()
        other.processes["prometheus"].wait(timeout=20)
        assert write(other, other.machine(), body(fresh())) == 503


async def test_the_monitor_reads_heartbeats_of_machines_and_tells_of_instances(host: PlatformHost) -> None:
    machine, monitor = host.machine(), host.service("hermesops-monitor")
    assert machine.names
    instance = str(machine.names.instance_id)
    context = ssl.create_default_context(cafile=str(monitor.authorities))
    context.load_cert_chain(monitor.certificate, monitor.key)
    now = time.time()
    assert write(host, machine, body("hermes_metrics_timestamp_seconds", at_s=now - 3, value=now - 8)) < 300
    forged = body(METRIC, ("origin", "platform"), at_s=now, value=now)
    assert write(host, machine, forged) < 300
    metrics = PlatformMetrics(
        MonitoringClient(f"{host.url}/prometheus", lambda: context, keeps=True),
        MonitoringClient(host.url, lambda: context, keeps=True),
    )

    async def look() -> Heartbeat | waiting.Pending[Heartbeat]:
        beats = parse(await metrics.query(QUERY), now_s=time.time())
        return beats.get(InstanceId(instance)) or waiting.Pending(str(beats))

    try:
        beat = await waiting.until(look, what="the heartbeat", timeout_s=30)
        assert beat.written == pytest.approx(now - 8, abs=0.01)
        assert beat.sampled == pytest.approx(now - 3, abs=0.01)
        document = {
            series("hermesops_monitor_leader"): 1.0,
            series("hermesops_monitor_pass_seconds"): 0.0312,
            series("hermesops_instance_backup_age_seconds", instance_id=instance): 123_456.789,
            series("hermesops_instance_condition", instance_id=instance, condition='a "strange" one\\'): 1.0,
        }
        many = {series("hermesops_instance_expected", instance_id=f"i{n}", cell="c"): 1.0 for n in range(20_000)}
        await metrics.push(Exposition(()).text({**document, **many}, now_s=0.0))
    finally:
        await metrics.aclose()
    assert host.query(f'count({METRIC}{{instance_id="{instance}"}})')[0][1] == 1, "the platform's own alone"
    assert host.query('count(hermesops_instance_expected{source="hermesops-monitor"})')[0][1] == 20_000
    [(labels, value)] = host.query("hermesops_instance_backup_age_seconds")
    assert (labels["instance_id"], value) == (instance, 123_456.789)
    assert holders(host, "hermesops_instance_condition")[0]["condition"] == 'a "strange" one\\'
