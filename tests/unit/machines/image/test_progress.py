"""The build of an image says which step it is at, and the time left from the last image's seconds."""

import json
from pathlib import Path

import pytest

from hermesops.base.progress import ProgressLine
from hermesops.machines.image import manifest as manifests
from hermesops.machines.image.progress import BuildProgress


def test_the_time_left_is_that_of_the_steps_that_are_left(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "hermes-base-1.json").write_text(json.dumps({"seconds": {"machine": 20, "roles": 300, "save": 80}}))
    last = manifests.last_seconds(tmp_path, "hermes-base")
    progress = BuildProgress("hermes-base", ("machine", "roles", "save"), last, lines.append)
    progress.begin("roles", "applying instance.yml")
    assert lines == ["image hermes-base: step 2 of 3, about 6 min left, took 7 min last time: applying instance.yml"]
    assert isinstance(lines[0], ProgressLine)
    assert lines[0].share == pytest.approx(0.05)


def test_without_an_earlier_build_only_the_step_is_known(tmp_path: Path) -> None:
    lines: list[str] = []
    for text in ("", "[]", '{"seconds": 1}'):
        (tmp_path / "hermes-base-1.json").write_text(text)
        assert manifests.last_seconds(tmp_path, "hermes-base") == {}
    BuildProgress("hermes-base", ("machine", "roles"), {}, lines.append).begin("machine", "renting m")
    assert lines == ["image hermes-base: step 1 of 2: renting m"]
