"""A real Prometheus with a past of our own: samples are put into its database before it starts, so nobody waits."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from hermesops.base import waiting
from tests.support.real import debian
from tests.support.real.ends_with_us import KILLED

_STARTS_S = 60
_LISTENS = re.compile(r'msg="Listening on" address=([0-9.:]+)')


@dataclass(frozen=True)
class Series:
    """One series.

    Attributes:
        metric: Its name.
        kind: ``counter`` or ``gauge``.
        samples: Seconds since 1970, and value.
    """

    metric: str
    kind: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


def programs() -> Path | None:
    """The folder with ``prometheus`` and ``promtool``; ``None`` where they are not to be had."""
    return debian.programs("prometheus", "promtool")


@contextmanager
def running(folder: Path, bin_folder: Path, past: Sequence[Series], *, prefix: str = "/") -> Iterator[str]:
    """Run one that has a past and gets nothing new; its URL, without the ``prefix`` below which it answers there."""
    text, config = folder / "past.om", folder / "prometheus.yml"
    text.write_text(_open_metrics(past))
    subprocess.run(
        [bin_folder / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, folder / "data"],
        check=True,
        capture_output=True,
    )
    config.write_text("scrape_configs: []\n")
    with serving(folder, bin_folder, config, prefix=prefix) as url:
        yield url


@contextmanager
def serving(folder: Path, bin_folder: Path, config: Path, *, prefix: str = "/") -> Iterator[str]:
    """Run one with a configuration of its own; its URL, without the prefix."""
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *KILLED,
                bin_folder / "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
                "--storage.tsdb.retention.time=10y",
                f"--web.route-prefix={prefix}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
        try:
            yield _ready(server, folder / "log", prefix)
        finally:
            server.terminate()
            server.wait(timeout=20)


def _ready(server: "subprocess.Popen[bytes]", log: Path, prefix: str) -> str:
    """Its URL, once it answers there."""
    for _ in range(_STARTS_S * 10):
        assert server.poll() is None, log.read_text()
        if (match := _LISTENS.search(log.read_text())) and _answers(f"http://{match[1]}{prefix.rstrip('/')}"):
            return f"http://{match[1]}"
        waiting.pause_blocking(0.1)
    raise AssertionError(log.read_text())


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _open_metrics(past: Sequence[Series]) -> str:
    lines = []
    for metric in sorted({series.metric for series in past}):
        same = [series for series in past if series.metric == metric]
        lines.append(f"# TYPE {metric.removesuffix('_total')} {same[0].kind}")
        for series in same:
            labels = ",".join(f'{name}="{value}"' for name, value in series.labels.items())
            lines += [f"{metric}{{{labels}}} {value} {at:.3f}" for at, value in series.samples]
    return "\n".join([*lines, "# EOF", ""])
