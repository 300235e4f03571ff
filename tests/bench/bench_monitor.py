"""``hermesops monitor`` with thousands of heartbeats: what a pass takes, of which processor time and memory."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hermesops.app import Container
from hermesops.settings.environment import Environment
from tests.bench.figures import Board, spread
from tests.support.fleets.filled_registry import fill
from tests.support.fleets.in_memory import ordered
from tests.support.vendor.fake_justavps import FakeJustAvps, served

INSTANCES = 10_000
RUNS_S = 75.0
_HERMESOPS = str(Path(sys.executable).with_name("hermesops"))
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    rows = [ordered(number) for number in range(INSTANCES)]
    with served(FakeJustAvps(looks_until_ready=0)) as vendor, _prometheus([row.instance.id for row in rows]) as url:
        for row in rows:
            vendor.add(row.instance.machine_name, id=row.instance.machine_id, status="ready", image_id=row.image_id)
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HERMESOPS_")},  # noqa: TID251 - as a user has it
            "HERMESOPS_HOME": str(folder / "home"),
            "HERMESOPS_API_URL": vendor.url,
            "HERMESOPS_API_KEY": vendor.key,
            "HERMESOPS_PROMETHEUS_URL": url,
        }
        fill(Container(Environment.load("local", variables), lambda _: None).registry, INSTANCES)
        _run(board, folder, variables)


def _run(board: Board, folder: Path, variables: dict[str, str]) -> None:
    with (folder / "log").open("wb") as log:
        began = time.monotonic()
        monitor = subprocess.Popen(
            [_HERMESOPS, "monitor", "--json"], env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=log
        )
        used, most = list[float](), 0.0
        while time.monotonic() - began < RUNS_S:
            before = _processor_s(monitor.pid)
            time.sleep(30 if used or time.monotonic() - began > 10 else 15)  # noqa: TID251 - nothing to wait for
            used.append(_processor_s(monitor.pid) - before)
            most = max(most, _memory_mb(monitor.pid))
        monitor.terminate()
        out, _ = monitor.communicate(timeout=90)
    done: dict[str, Any] = json.loads(out)
    each = f"{done['heartbeats']:,} heartbeats recorded in {done['passes']} passes and {RUNS_S:.0f} s"
    board.add(
        f"monitor at {INSTANCES:,}: processor time of 30 s",
        f"{statistics.median(used[1:]):.1f} s ({spread(used[1:])}), the first 15 s {used[0]:.1f} s; {each}",
        target="10,000 per 30 s on one core",
    )
    board.add(f"monitor at {INSTANCES:,}: memory", f"{most:.0f} MB at most", target="<= 200 MB")
    assert done["heartbeats"] >= 2 * INSTANCES, (done, (folder / "log").read_text()[-2000:])


@contextmanager
def _prometheus(instances: list[str]) -> Iterator[str]:
    """Something that answers as Prometheus does for a fleet of which every machine sends heartbeats every 15 s."""

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            now = time.time()
            sent = str(now - now % 15)
            body = json.dumps(
                {
                    "status": "success",
                    "data": {
                        "resultType": "vector",
                        "result": [
                            {"metric": {"instance_id": instance, "what": what}, "value": [now, sent]}
                            for what in ("written", "sampled")
                            for instance in instances
                        ],
                    },
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_mb(pid: int) -> float:
    """The most that it ever took."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
