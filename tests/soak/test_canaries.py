"""Every command of hermesops is run with canaries planted, and watched; see ``tests/hostile/test_canaries.py``."""

import sys
from pathlib import Path

import pytest

from tests.support.hostile.canaries import canary_commands
from tests.support.hostile.canaries.canary_run import search
from tests.support.hostile.canaries.planted import COMMAND, PLUGIN, SERVER
from tests.support.real.stores import postgresql
from tests.support.suite.prerequisites import require


@pytest.mark.timeout(3600)
async def test_no_command_leaks_a_secret(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    searched = await search(tmp_path, canary_commands.COMMANDS)
    sys.stderr.write(searched.table())
    assert searched.leaks == set()
    assert {COMMAND, SERVER, PLUGIN} <= set(searched.seen)
    bugs = [ran for ran in searched.ran if ran.exit_code == 1 or "Traceback" in ran.stderr]
    assert bugs == [], "\n".join(map(str, bugs))
