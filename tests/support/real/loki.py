"""Grafana Loki, built from source once and kept between test runs."""

import asyncio
import hashlib
import os
from pathlib import Path

from hermesops.assets import folder
from hermesops.localcloud.world.go_tools import LOKI, GoTools
from tests.support.worlds.converged import shared_cache


def loki() -> Path:
    """The program, from the cache that test runs share: some minutes where it is not there yet."""
    environ = dict(os.environ)  # noqa: TID251 - a build needs HOME, PATH and proxies, as the command passes them
    return asyncio.run(GoTools(folder("images") / "tools" / "loki", shared_cache(), environ, print).build(LOKI))


def source_of(program: Path) -> dict[str, str]:
    """The program as role hermes_monitoring is told of it."""
    return {"path": str(program), "sha256": hashlib.sha256(program.read_bytes()).hexdigest()}
