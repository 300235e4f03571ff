"""Lines of a bulk command stand behind the name of the user that they are about."""

import asyncio

import pytest

from hermesops.base.fan_out import Limits, problems
from hermesops.base.narration import about, with_subject
from hermesops.cli import console
from hermesops.errors import UsageError
from hermesops.model.operation import Operation
from hermesops.store.operations.outcomes import Outcome, end_each
from tests.support.fakes.parts import part


def test_outside_of_a_bulk_command_a_line_stays() -> None:
    assert with_subject("backing up") == "backing up"
    with about("ben"):
        assert with_subject("backing up") == "ben: backing up"
    assert with_subject("backing up") == "backing up"


async def test_lines_of_several_users_at_once_keep_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    barrier = asyncio.Barrier(2)

    async def back_up(user: str) -> None:
        await barrier.wait()
        console.say("backing up")
        await asyncio.create_task(_deep())
        if user == "ben":
            raise UsageError("no room")

    both = await problems({"ada": "ada", "ben": "ben"}, back_up, Limits(2, slow_after_s=9, within_s=9))
    assert both == {"ada": "", "ben": "no room"}
    lines = capsys.readouterr().err.splitlines()
    assert sorted(lines) == ["ada: backing up", "ada: deep", "ben: backing up", "ben: deep"]


async def _deep() -> None:
    console.say("deep")


async def test_operations_of_a_job_narrate_behind_their_subject(capsys: pytest.CaptureFixture[str]) -> None:
    async def end(_operation: Operation) -> str:
        console.say("making machines")
        return "done"

    await end_each([Outcome("cell1", part()), Outcome("cell2", part())], end)
    assert capsys.readouterr().err.splitlines() == ["cell1: making machines", "cell2: making machines"]
