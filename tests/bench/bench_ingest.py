"""The platform's monitoring while machines send as much as nginx lets them: what that costs one that does not.

nginx, hermes-ingest and Prometheus are the real ones with the role's files, on loopback. A hostile machine sends
requests of 140,000 samples of one time and of 105,000 samples of half an hour by turns: all that nginx takes of one.
"""

import ctypes
import itertools
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import httpx

from hermesops.automation.monitor.metrics.heartbeats import QUERY
from hermesops.base import waiting
from hermesops.programs.ingest.remote_write import encode_labels, encode_sample, encode_series
from tests.bench.figures import Board, report
from tests.support.real.monitoring.loki import loki
from tests.support.real.monitoring.platform_host import Client, PlatformHost, programs, running

HOSTILE = (1, 3, 6)
LOGS_S = 60.0
SECONDS, QUIET_S = 45.0, 20.0
"""Of each number of hostile machines, and before it without any: what else the computer does changes meanwhile."""

_CONNECTIONS = 4
"""Of a hostile machine: its burst first, then together one request a second, as nginx lets them."""

_OWN_SERIES = 211
"""Of a machine of ours."""

_BURST = 15
_METRIC = b"hermes_metrics_timestamp_seconds"


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    root = programs()
    if root is None:
        report("    left out: Debian's packages of nginx, Prometheus and Alertmanager are not to be had")
        return
    bodies = Bodies(root)
    _logs(board, folder / "logs", root)
    with running(folder, root) as host:
        _judging(board, host, 0)
        for hostile in HOSTILE:
            quiet, _ = _under(host, bodies, 0, QUIET_S)
            before = {name: _processor_s(host, name) for name in ("ingest", "prometheus")}
            took, answers = _under(host, bodies, hostile, SECONDS)
            used = ", ".join(f"{name} {_processor_s(host, name) - was:.1f} s" for name, was in before.items())
            board.add(
                f"an honest write, {hostile} hostile machines",
                f"{_spread(took)}; the hostile ones were answered {dict(sorted(answers.items()))}",
                target="p50 <= 2 x the quiet one",
                against=f"quiet, just before: {_spread(quiet)}",
            )
            board.add(f"processor time of {SECONDS:.0f} s, {hostile} hostile machines", used)
            _judging(board, host, hostile)


def _logs(board: Board, folder: Path, root: Path) -> None:
    """The disk that one hostile machine takes by logs, with text and without, at the rate of nginx."""
    for kind, line, lines in (("lines of 1 KB", "x" * 1000, 450), ("lines without text", "", 18_000)):
        place = folder / kind.replace(" ", "-")
        place.mkdir(parents=True)
        with running(place, root, loki=loki()) as host, host.machine().http(host.url, timeout_s=60) as client:
            answers, sent, end = dict[int, int](), 0, time.monotonic() + LOGS_S
            for number in itertools.count():
                if time.monotonic() > end:
                    break
                body = _pushed(number, line, lines)
                status = client.post("/ingest/logs", content=body).status_code
                answers[status] = answers.get(status, 0) + 1
                sent += len(body) * (status == HTTPStatus.NO_CONTENT)
                if number > _BURST:
                    waiting.pause_blocking(1.0)
            taken = sum(file.stat().st_size for file in (place / "data/loki").rglob("*") if file.is_file())
            most = host.variables["__hermes_platform_monitoring_logs_burst_mb"]
        board.add(
            f"disk of one sender's logs after {LOGS_S:.0f} s, {kind}",
            f"{taken / 1e6:.1f} MB for {sent / 1e6:.1f} MB of bodies; answers {dict(sorted(answers.items()))}",
            target=f"<= {most} MB at once, and 3.5 KB a second",
        )


def _pushed(number: int, line: str, lines: int) -> bytes:
    begin = time.time_ns()
    values = [[str(begin + number * lines + place), line] for place in range(lines)]
    body = {"streams": [{"stream": {"unit": f"x{number % 50}"}, "values": values}]}
    return json.dumps(body, separators=(",", ":")).encode()


def _spread(took: Sequence[float]) -> str:
    p95 = sorted(took)[int(len(took) * 0.95)]
    return f"p50 {statistics.median(took) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, max {max(took) * 1000:.0f} ms"


def _processor_s(host: PlatformHost, name: str) -> float:
    fields = Path(f"/proc/{host.processes[name].pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bodies:
    """Requests as they go over the line."""

    def __init__(self, root: Path) -> None:
        self._snappy = ctypes.CDLL(str(root / "usr/lib/x86_64-linux-gnu/libsnappy.so.1"))
        self._now = int(time.time() * 1000)
        self._one_time = encode_sample(1, self._now) * 140_000

    def honest(self) -> bytes:
        """What a machine of ours sends each time."""
        at = int(time.time() * 1000)
        figures = [_METRIC, *(b"node_figure_%d" % n for n in range(_OWN_SERIES - 1))]
        return self._packed(
            b"".join(
                encode_series(encode_labels([(b"__name__", figure), (b"job", b"node")]), [encode_sample(at / 1000, at)])
                for figure in figures
            )
        )

    def hostile(self, number: int) -> bytes:
        """What hurts most, by turns."""
        if number % 2:
            return self._packed(encode_series(encode_labels([(b"__name__", _METRIC)]), [self._one_time]))
        begin = self._now - 1_500_000 + number * 19_000
        times = b"".join(encode_sample(1, at) for at in range(begin, begin + 18_000, 60))
        return self._packed(
            b"".join(
                encode_series(encode_labels([(b"__name__", _METRIC), (b"n", b"%d" % n)]), [times]) for n in range(350)
            )
        )

    def _packed(self, data: bytes) -> bytes:
        size = ctypes.c_size_t(self._snappy.snappy_max_compressed_length(ctypes.c_size_t(len(data))))
        room = ctypes.create_string_buffer(size.value)
        assert not self._snappy.snappy_compress(data, ctypes.c_size_t(len(data)), room, ctypes.byref(size))
        return room.raw[: size.value]


def _under(host: PlatformHost, bodies: Bodies, hostile: int, seconds: float) -> tuple[list[float], dict[int, int]]:
    """Seconds of each write of an honest machine beside so many hostile ones, and what these were answered."""
    took, answers = list[float](), dict[int, int]()
    with _flood(host, bodies, hostile, answers), host.machine().http(host.url, timeout_s=60) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            body = bodies.honest()
            began = time.perf_counter()
            answer = client.post("/ingest/write", content=body)
            took.append(time.perf_counter() - began)
            if answer.status_code != 204:
                report(f"    an honest write was answered {answer.status_code}")
            waiting.pause_blocking(1.05)
    return took, answers


@contextmanager
def _flood(host: PlatformHost, bodies: Bodies, machines: int, answers: dict[int, int]) -> Iterator[None]:
    over, sent = threading.Event(), [bodies.hostile(number) for number in range(int(SECONDS) + _BURST)]
    assert max(map(len, sent)) <= 512 << 10, "nginx takes no more"

    def act(who: Client, number: int) -> None:
        with who.http(host.url, timeout_s=60) as client:
            for turn in itertools.count():
                if over.wait(_CONNECTIONS if turn >= _BURST / _CONNECTIONS else 0):
                    return
                body = sent[(number + turn) % len(sent)]
                try:
                    status = client.post("/ingest/write", content=body).status_code
                except httpx.TransportError:
                    status = 0
                answers[status] = answers.get(status, 0) + 1

    threads = [
        threading.Thread(target=act, args=(who, turn * 17))
        for who in (host.machine() for _ in range(machines))
        for turn in range(_CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(timeout=90)


def _judging(board: Board, host: PlatformHost, hostile: int) -> None:
    """What Prometheus takes to say who lives, with what has come so far."""
    prometheus = f"http://127.0.0.1:{host.ports['prometheus']}/api/v1"
    after = f"after {hostile} hostile machines"
    with httpx.Client(trust_env=False, timeout=120) as client:
        began = time.perf_counter()
        answer = client.post(
            f"{prometheus}/query",
            content=f"query={quote(QUERY)}",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        elapsed_s = time.perf_counter() - began
        output = f"{len(answer.json()['data']['result'])} samples" if answer.is_success else answer.text[:80]
        board.add(
            f"the monitor's question {after}", f"{elapsed_s:.2f} s, {output}", target="< 10 s, or nothing is repaired"
        )
        groups = {group["name"]: group for group in client.get(f"{prometheus}/rules").json()["data"]["groups"]}
        each = ", ".join(
            f"{name} {groups[name]['evaluationTime']:.2f} s" for name in ("heartbeats", "metrics", "gateway")
        )
        broken = [rule["name"] for group in groups.values() for rule in group["rules"] if rule["health"] == "err"]
        board.add(
            f"evaluation of rules {after}", f"{each}; failed: {', '.join(broken) or 'none'}", target="heartbeats < 5 s"
        )
        for what, query in (
            ("evaluations missed", "sum(prometheus_rule_group_iterations_missed_total)"),
            ("samples in memory", "sum(prometheus_tsdb_head_samples_appended_total)"),
            ("bytes of memory", 'max(process_resident_memory_bytes{service="prometheus"})'),
        ):
            result = client.get(f"{prometheus}/query", params={"query": query}).json()["data"]["result"]
            board.add(f"{what} {after}", f"{float(result[0]['value'][1]):,.0f}" if result else "not known")
