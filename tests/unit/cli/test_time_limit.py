"""``--timeout``: a command stops waiting, undoes nothing, and names the command that follows its work."""

import asyncio
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from hermesops.cli import context
from hermesops.cli.options.instance import resume_or_leave
from hermesops.cli.options.time_limit import TimeLimit, limit
from hermesops.cli.root import app
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.operation import Operation, OperationStatus
from hermesops.store.operations.runner import QUEUED, Operations

OPERATION = cast("Operation", SimpleNamespace(id="d7f3", subject="instance/1", status=OperationStatus.RUNNING))

FOLLOWS = {
    "job run": "it follows another process that runs the job",
    "pool drain": "each cell's operation follows the process that has it",
    "provision": "with --from, the same command again does the rest",
    "stack up": "cells that another process runs are named, and the same command continues",
}
"""Commands with ``--no-wait`` that need no ``--wait``, or take it for one user only."""


@pytest.fixture(autouse=True)
def _no_limit() -> Iterator[None]:
    yield
    limit.begin(math.inf)


async def forever() -> str:
    await asyncio.Event().wait()
    return "never"


def test_work_is_waited_for_until_the_limit_and_not_longer() -> None:
    assert context.run(_done()) == "done"
    limit.begin(0.01)
    with pytest.raises(UnavailableError, match=r"the work did not end within 0.01 s; it is not undone") as over:
        context.run(forever())
    assert over.value.exit_code == 4
    assert str(over.value.hint) == "the same command again continues it"


async def _done() -> str:
    return "done"


async def test_work_that_fails_or_ends_in_time_is_not_said_to_be_late() -> None:
    async def late() -> str:
        raise TimeoutError("of its own")

    short = TimeLimit()
    short.begin(60)
    assert await short.keep(_done()) == "done"
    with pytest.raises(TimeoutError, match="of its own"):
        await short.keep(late())
    with pytest.raises(asyncio.CancelledError), short.leaving(lambda: RefusedError("left")):
        raise asyncio.CancelledError  # Ctrl-C leaves nothing to the workers
    assert short.left is None


@pytest.mark.parametrize(
    ("holder", "words", "steps"), [("", "left to the workers", [QUEUED]), ("vm:1", "vm:1 goes", [])]
)
def test_an_operation_is_left_to_the_workers_unless_a_process_has_it(holder: str, words: str, steps: list[str]) -> None:
    recorded = list[str]()
    registry = SimpleNamespace(
        leases=SimpleNamespace(
            list=lambda: [SimpleNamespace(subject=OPERATION.subject, holder=holder)] if holder else []
        ),
        operations=SimpleNamespace(get=lambda _: OPERATION, record_step=lambda _, step: recorded.append(step)),
    )
    operations = Hanging(cast("Any", registry), {}, print)
    limit.begin(0.01)
    with pytest.raises(UnavailableError, match=words) as over:
        context.run(resume_or_leave(operations, OPERATION))
    assert over.value.hint == Hint(("operation", "continue", "d7f3"), "follows it")
    assert recorded == steps


class Hanging(Operations):
    """Operations of which none ends."""

    async def resume(self, operation: Operation, *, wait_s: float = 0) -> str:
        del operation, wait_s
        return await forever()


def test_every_command_that_runs_operations_takes_a_timeout_and_waits_for_others() -> None:
    commands = dict(_walk(typer.main.get_command(app), ""))
    runs = {name for name, options in commands.items() if options & {"--no-wait", "--detach"}}
    assert {"provision", "rollback", "rollout start", "instance move", "stack up", "backup create"} <= runs
    assert [name for name in sorted(runs) if "--timeout" not in commands[name]] == []
    waits = {name for name in runs if "--wait" in commands[name]} | {"operation continue"}
    detached = {name for name in runs if "--detach" in commands[name]} - waits
    assert runs - waits - detached == set(FOLLOWS) - {"provision"}
    for name in ("rollback", "operation continue", "drill restore", "instance settings"):
        assert {"--wait", "--timeout"} <= commands[name], name
    for name in ("local up", "image build", "release build", "stack destroy", "fleet converge", "registry rebuild"):
        assert "--timeout" in commands[name], name


def _walk(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:  # noqa: ANN401 - Click does not type it
    if not hasattr(command, "list_commands"):
        yield name, {option for parameter in command.params for option in parameter.opts}
        return
    for word in command.list_commands(None):
        yield from _walk(command.get_command(None, word), f"{name} {word}".strip())
