"""The unit in ``runbooks/environments.md`` is one that systemd takes, and is as closed as units of machines are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.suite.prerequisites import require

ENVIRONMENTS = Path(__file__).parents[4] / "runbooks" / "environments.md"
MOST = 2.0
"""The most that ``systemd-analyze security`` may say, from 0 to 10."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    search = re.search(r"```ini\n# \S+/(\S+\.service)\n(.*?)```", ENVIRONMENTS.read_text(), re.DOTALL)
    assert search
    file = tmp_path / search[1]
    file.write_text(
        search[2].replace("/opt/hermesops/bin/hermesops", "/bin/true").replace("User=hermesops", "User=root")
    )
    return file


def analyzed(*words: str | Path) -> str:
    program = shutil.which("systemd-analyze")
    require(program, "systemd-analyze (apt: systemd)")
    assert program
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_takes_it_without_a_word(unit: Path) -> None:
    assert analyzed("verify", "--man=no", "--recursive-errors=no", unit) == ""


def test_it_may_do_no_more_than_it_has_to(unit: Path) -> None:
    output = analyzed("security", "--offline=yes", "--no-pager", unit)
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", output)
    assert exposure, output
    assert float(exposure[1]) <= MOST, output
