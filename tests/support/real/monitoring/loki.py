"""Grafana Loki, built from source once and kept between test runs."""

import hashlib
from pathlib import Path

from tests.support.real.go_programs import LOKI


def loki() -> Path:
    """The program: some minutes where it is not there yet."""
    return LOKI.built(print)


def source_of(program: Path) -> dict[str, str]:
    """The program as role hermes_monitoring is told of it."""
    return {"path": str(program), "sha256": hashlib.sha256(program.read_bytes()).hexdigest()}
