"""Style, types, arrows, roles, YAML and shell are part of what has to pass."""

import shutil
import subprocess

import pytest

from hermesops import assets
from tests.support.suite.prerequisites import require

TOP = assets.folder("roles").parent


@pytest.mark.parametrize("linter", ["ruff", "format", "mypy", "arrows", "ansible", "yaml", "shell", "pipelines"])
def test_linters_find_nothing(linter: str) -> None:
    require(shutil.which("make"), "make")
    require(linter != "shell" or shutil.which("shellcheck"), "shellcheck")
    done = subprocess.run(["make", f"lint-{linter}"], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
