"""Style, types, arrows, roles, YAML and shell are part of what has to pass; the slow ones with some commits."""

import shutil
import subprocess

import pytest

from hermesops.base import assets
from tests.support.suite.prerequisites import require

TOP = assets.folder("roles").parent


@pytest.mark.parametrize(
    "linter",
    [
        *("ruff", "format", "arrows", "yaml", "shell"),
        pytest.param("mypy", marks=pytest.mark.turns(90, each=True)),
        pytest.param("ansible", marks=pytest.mark.turns(40, each=True)),
        pytest.param("pipelines", marks=pytest.mark.turns(15, each=True)),
    ],
)
def test_linters_find_nothing(linter: str) -> None:
    require(shutil.which("make"), "make")
    require(linter != "shell" or shutil.which("shellcheck"), "shellcheck")
    done = subprocess.run(["make", f"lint-{linter}"], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
