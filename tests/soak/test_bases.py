"""Each base that the local world offers, from the distribution's archive to an agent, with every promise of the roles.

The default base is what ``make test`` uses throughout, so its promises are not run again here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.base import assets
from hermesops.localcloud.drivers.nspawn.disks.base_image import find_definition, read_definition
from hermesops.settings.fields import FIELDS
from tests.support.real.commands.command import Command, local_world
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.machines, pytest.mark.timeout(3600)]

BASES = {
    "base-debian12": ("debian", "12", "3.11"),
    "base-debian13": ("debian", "13", "3.13"),
    "base-ubuntu2404": ("ubuntu", "24.04", "3.12"),
}
DEFAULT = FIELDS["local.base"].default
PROMISES = [
    "tests/integration/test_roles_base.py",
    "tests/integration/test_image.py",
    "tests/integration/test_roles_agent.py",
    "tests/integration/test_roles_monitoring.py",
]
WHO = "RUN: . /etc/os-release; echo $ID $VERSION_ID; python3 --version"


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(
        "base",
        "distribution",
        "Python",
        "up",
        "image",
        "provision",
        "chat",
        "verify",
        title="agents on each base; seconds",
    )


@pytest.fixture(scope="module", autouse=True)
def _print_table(table: Table) -> object:
    yield
    Console(width=120).print(table)


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest) -> str:
    """The name of a base that can be built here."""
    name = str(request.param)
    for path, package in read_definition(find_definition(assets.folder("images"), name)).needs.items():
        require(Path(path).exists(), f"{package}, to build {name}: make need-bases installs it")
    return name


async def test_a_user_gets_an_agent_that_keeps_every_promise(base: str, tmp_path: Path, table: Table) -> None:
    distribution, version, python = BASES[base]
    async with local_world(tmp_path / "home", image=False, base=base) as world:
        built = await world.ok("image", "build", "--json")
        provisioned = await world.ok("provision", "ada", "--plan", "light")
        chat = await world.ok("instance", "chat", "ada", WHO, "--reason", "test", "--json")
        assert f"{distribution} {version}\\nPython {python}" in chat.json["answer"], str(chat)
        verified = await world.ok("instance", "verify", "ada", "--json")
        verdicts = [check["verdict"] for check in verified.json["checks"]]
        assert set(verdicts) == {"ok"}, str(verified)
        await world.ok("instance", "terminate", "ada", "--yes", "--reason", "test")
        up = _ran(world, "local", "up")
        figures = [f"{ran:.1f}" for ran in (up, built.seconds, provisioned.seconds, chat.seconds)]
        table.add_row(
            base, f"{distribution} {version}", python, *figures, f"{len(verdicts)} ok in {verified.seconds:.1f}"
        )


def _ran(world: Command, *arguments: str) -> float:
    return next(ran.seconds for ran in world.said if ran.arguments == arguments)


@pytest.mark.parametrize("base", [name for name in BASES if name != DEFAULT], indirect=True)
def test_the_roles_keep_their_promises(base: str) -> None:
    """Roles twice, firewall, sshd, exposure, sandbox limits, monitoring, images: what the default base passes."""
    switches = {"HERMESOPS_TEST_BASE": base, "HERMESOPS_TEST_ALL": "1"}
    environ = {**os.environ, **switches}  # noqa: TID251 - the tests' own
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PROMISES],
        cwd=Path(__file__).resolve().parents[2],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20000:]
