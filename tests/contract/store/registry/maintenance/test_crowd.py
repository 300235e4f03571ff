"""Several computers at random on one registry leave no contradiction; small counts here, large ones in the soak."""

import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.store.registry.audit.anchor import Anchor
from tests.support.crash.programs.registry_hammer import contradictions
from tests.support.real.stores.registries import registry_at

pytestmark = pytest.mark.turns(10)

ROUNDS = 60
SEEDS = (1, 2)


def test_computers_that_work_at_random_contradict_nothing(registry_url: str, tmp_path: Path) -> None:
    registry = registry_at(registry_url)
    anchors = {seed: tmp_path / f"{seed}.anchor" for seed in SEEDS}
    command = [sys.executable, "-m", "tests.support.crash.programs.registry_hammer", registry_url]
    running = [
        subprocess.Popen(
            [*command, str(anchor), str(seed), str(ROUNDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for seed, anchor in anchors.items()
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    lines = [line for out, _ in outputs for line in out.splitlines()]
    names = contradictions(registry, map(Anchor, anchors.values()), lines)
    assert names == []
    assert len(registry.audit.list()) > ROUNDS, "they did work"
    registry.close()
