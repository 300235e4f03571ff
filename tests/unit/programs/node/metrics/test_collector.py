"""Every part of the metrics is read on its own: one that fails or hangs costs the others nothing."""

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics.collector import collect
from hermesops.programs.node.metrics.exposition import Sample
from hermesops.wire.errors import NotReadyError
from tests.support.fakes.machines.node_home import NodeHome, make

Kept = dict[str, Any]


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.metrics.parent.mkdir(parents=True)
    return machine


def good(_machine: Machine, kept: Kept) -> Iterator[Sample]:
    kept["runs"] = kept.get("runs", 0) + 1
    yield Sample("hermes_runs_in_flight", kept["runs"])


def failing(_machine: Machine, kept: Kept) -> Iterator[Sample]:
    kept["runs"] = "spoiled"
    yield Sample("hermes_fenced", 1)
    raise RuntimeError("a secret\nin two lines")


def text_of(machine: NodeHome) -> str:
    return machine.layout.metrics.read_text()


def test_a_part_that_fails_is_left_out_and_counted(machine: NodeHome) -> None:
    answer = collect(machine.node, named={"bad": failing, "good": good})
    assert answer["failed"] == {"bad": "RuntimeError: a secret in two lines"}
    assert "hermes_runs_in_flight 1\n" in text_of(machine)
    assert "hermes_fenced" not in text_of(machine), "a part is written whole or not at all"
    assert "hermes_metrics_errors_total 1\n" in text_of(machine)
    assert "secret" not in text_of(machine)


def test_errors_and_what_parts_remember_last_from_run_to_run(machine: NodeHome) -> None:
    for _ in range(3):
        collect(machine.node, named={"bad": failing, "good": good})
    assert "hermes_metrics_errors_total 3\n" in text_of(machine)
    assert "hermes_runs_in_flight 3\n" in text_of(machine)


def test_a_part_that_hangs_is_left_out(machine: NodeHome) -> None:
    release = threading.Event()

    def hanging(_machine: Machine, kept: Kept) -> Iterator[Sample]:
        kept["runs"] = 7
        release.wait(30)
        yield Sample("hermes_fenced", 1)

    answer = collect(machine.node, named={"slow": hanging, "good": good}, deadline_s=0.2)
    assert answer["failed"] == {"slow": "not read in time"}
    assert "hermes_runs_in_flight 1\n" in text_of(machine)
    release.set()


def test_a_sample_that_cannot_be_written_fails_its_part_alone(machine: NodeHome) -> None:
    def odd(_machine: Machine, _kept: Kept) -> Iterator[Sample]:
        yield Sample("hermes_release_info", 1, {"release": 'x"'})

    answer = collect(machine.node, named={"odd": odd, "good": good})
    assert list(answer["failed"]) == ["odd"]
    assert "hermes_runs_in_flight 1\n" in text_of(machine)


def test_the_file_is_for_all_to_read_and_what_is_remembered_is_roots(machine: NodeHome) -> None:
    collect(machine.node, named={"good": good})
    assert stat.S_IMODE(machine.layout.metrics.stat().st_mode) == 0o644
    assert stat.S_IMODE(machine.layout.metrics_memory.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "[]", "{", '{"errors": "x"}', '{"parts": {"good": 7}}', '{"parts": 1}'])
def test_a_damaged_memory_is_begun_again(machine: NodeHome, content: str) -> None:
    machine.layout.metrics_memory.write_text(content)
    collect(machine.node, named={"good": good})
    assert "hermes_runs_in_flight 1\n" in text_of(machine)
    assert json.loads(machine.layout.metrics_memory.read_text())["parts"]["good"] == {"runs": 1}


def test_without_the_units_folder_it_says_so(tmp_path: Path) -> None:
    machine = make(tmp_path, runs_processes=False)
    with pytest.raises(NotReadyError, match="hermes-metrics"):
        collect(machine.node, named={"good": good})
