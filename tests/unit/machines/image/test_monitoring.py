"""Which profile of monitoring an image gets, from settings and from what is at hand."""

import hashlib
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.machines.image.monitoring import machine_monitoring
from hermesops.settings.environment import Environment

_DIGEST = "0" * 63 + "f"
_PINNED = f"https://mirror.example/loki#sha256={_DIGEST}"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    program = tmp_path / "loki"
    program.write_bytes(b"program")
    return program


def test_without_a_loki_machines_only_send_and_that_is_said(tmp_path: Path) -> None:
    monitoring = machine_monitoring("auto", "", tmp_path / "loki")
    assert (monitoring.profile, monitoring.variables["hermes_monitoring_loki_sources"]) == ("lean", [])
    assert "not stored" in monitoring.note


def test_a_loki_that_was_built_here_is_used(built: Path) -> None:
    monitoring = machine_monitoring("auto", "", built)
    digest = hashlib.sha256(b"program").hexdigest()
    assert monitoring.variables["hermes_monitoring_loki_sources"] == [{"path": str(built), "sha256": digest}]
    assert (monitoring.profile, monitoring.note) == ("full", "")


def test_an_image_is_the_same_wherever_its_loki_lies(built: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.write_bytes(b"program")
    assert machine_monitoring("auto", "", built).inputs == machine_monitoring("full", "", other).inputs
    other.write_bytes(b"another")
    assert machine_monitoring("auto", "", built).inputs != machine_monitoring("auto", "", other).inputs


def test_sources_of_the_settings_come_first_and_in_their_order(built: Path) -> None:
    second = _PINNED.replace("mirror", "second")
    monitoring = machine_monitoring("auto", f"{_PINNED}, {second}", built)
    urls = [binary["url"] for binary in monitoring.loki]
    assert urls == ["https://mirror.example/loki", "https://second.example/loki"]
    assert {binary["sha256"] for binary in monitoring.loki} == {_DIGEST}


def test_lean_takes_no_loki(built: Path) -> None:
    assert machine_monitoring("lean", _PINNED, built).variables["hermes_monitoring_loki_sources"] == []


def test_machines_tell_as_much_oftener_as_alerts_wait_shorter_and_never_less_often(built: Path) -> None:
    plain, quick, slow = (machine_monitoring("lean", "", built, time_scale=scale) for scale in (1.0, 0.2, 10.0))
    wanted = {"hermes_node_metrics_seconds": 3, "hermes_monitoring_scrape_seconds": 3}
    assert wanted.items() <= quick.variables.items()
    assert wanted.items() <= quick.inputs.items(), "it is another image"
    assert plain.inputs == slow.inputs
    assert "hermes_node_metrics_seconds" not in plain.variables


def test_full_without_a_loki_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="needs Loki"):
        machine_monitoring("full", "", tmp_path / "loki")


@pytest.mark.parametrize(
    "text", ["https://mirror.example/loki", _PINNED.replace("https", "http"), _PINNED[:-1], f"{_PINNED} {_PINNED}"]
)
def test_a_source_without_its_digest_or_in_the_clear_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="monitoring"):
        Environment.load(environ={"HERMESOPS_HOME": str(tmp_path), "HOME": "/", "HERMESOPS_MONITORING_LOKI": text})


def test_a_pinned_source_is_taken(tmp_path: Path) -> None:
    environ = {"HERMESOPS_HOME": str(tmp_path), "HOME": "/", "HERMESOPS_MONITORING_LOKI": f"{_PINNED},{_PINNED}"}
    assert Environment.load(environ=environ).settings.monitoring.loki == f"{_PINNED},{_PINNED}"
