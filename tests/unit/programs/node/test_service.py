"""The program as its units start it. Here is no machine, so nothing is written and nobody is asked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.programs.node import build, service

_HEAVY = {
    *("sqlite3", "http.client", "ssl", "tempfile", "hashlib", "random"),
    *(f"hermesops.programs.node.{name}" for name in ("__main__", "state.adapter", "release.slots.disk")),
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    program = tmp_path / "hermes-node"
    build.write(program)
    return program


def started(program: Path, command: str, environ: dict[str, str]) -> subprocess.Popen[str]:
    words = [sys.executable, "-IS", "-X", "importtime", str(program), command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


def imported(stderr: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in stderr.splitlines()}


def test_it_runs_again_and_again_until_the_program_is_another_one(program: Path) -> None:
    with started(program, "orders", {service.VARIABLE: "0-0"}) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert json.loads(process.stdout.readline())["asked"] is False
        os.utime(program, (1, 1))
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert {"hermesops.programs.node.service", "hermesops.programs.node.orders.break_glass"} <= imported(stderr)
    assert not imported(stderr) & _HEAVY


def test_a_run_that_fails_ends_it(program: Path) -> None:
    with started(program, "metrics", {service.VARIABLE: "15"}) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, json.loads(stdout)["kind"]) == (4, "NotReadyError")
    assert "hermesops.programs.node.service" in imported(stderr)
    assert not imported(stderr) & _HEAVY


def test_without_the_variable_it_runs_once(program: Path) -> None:
    with started(program, "orders", {}) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, len(stdout.splitlines())) == (0, 1)
    assert "hermesops.programs.node.service" not in imported(stderr)


def test_the_pause_is_the_units() -> None:
    assert service.pause("15")() == 15
    drawn = {service.pause("25-35")() for _ in range(50)}
    assert 25 <= min(drawn) < max(drawn) <= 35


@pytest.mark.parametrize("every", ["", "x", "-1", "5-", "12345", "1.5"])
def test_another_pause_is_refused(every: str) -> None:
    with pytest.raises(ValueError, match="not seconds"):
        service.pause(every)
