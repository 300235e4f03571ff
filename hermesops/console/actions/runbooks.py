"""Runs of runbooks: the steps of ``runbook run --yes``, each shown with its output while it runs."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hermesops.base import assets
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.console.actions.operations import ask_agent
from hermesops.errors import HermesError, Hint, UsageError
from hermesops.observability.runbook.command import run_command
from hermesops.observability.runbook.document import load
from hermesops.observability.runbook.reading import is_reading
from hermesops.observability.runbook.run import RunbookRun, agreed, unseen
from hermesops.observability.runbook.service import variables_of
from hermesops.views.observability import runbooks as shapes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.command import Ended
    from hermesops.observability.runbook.document import Runbook

_KEPT = 50
"""Runs that are kept; the oldest goes first. Their transcripts are in the audit."""

_LINES = 2000
"""Newest lines of a run that are shown."""


@dataclass
class Run:
    """A run of a runbook, or other work without rows of its own, in this process.

    Attributes:
        title: Of its page.
        runbook: ``None`` for other work.
        lines: Narration, and the output of steps; hints are shown with their commands.
        result: Its steps with their outcomes; ``None`` while it runs.
    """

    title: str
    runbook: "Runbook | None" = None
    instance: "Instance | None" = None
    lines: list[str | Hint] = field(default_factory=list)
    result: Mapping[str, object] | None = None
    _output: str = ""

    def report(self, line: str | Hint) -> None:
        """Add a line."""
        self.lines.append(line)
        del self.lines[:-_LINES]

    def show(self, output: str) -> None:
        """Add output of a step, as it comes."""
        self._output += output
        *lines, self._output = self._output.split("\n")
        for line in lines:
            self.report(line)


RUNS: "OrderedDict[str, Run]" = OrderedDict()
"""Runs of this process, by their ids."""


def run_of(run_id: str) -> Run:
    """A run by its id.

    Raises:
        UsageError: This process has none of that id.
    """
    run = RUNS.get(run_id)
    if run is None:
        hint = Hint(("audit", "log"), "has the transcripts of ended runs")
        raise UsageError("this console has no run of that id", hint=hint)
    return run


@dataclass(frozen=True)
class RunbookWork:
    """A run of a runbook from one step on, agreed to beforehand."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The steps, with the values of this instance."""
        runbook, instance = await asyncio.to_thread(_filled, container, request)
        first = runbook.begin_at(request.value("step"))
        return Preview("runbook", shapes.dry_run(runbook, instance.title if instance else "", first))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin the run; its page shows each step."""
        container = connected.container
        runbook, instance = await asyncio.to_thread(_filled, container, request)
        runbook.begin_at(request.value("step"))
        run = Run(runbook.title, runbook, instance)
        return begun_run(run, partial(_carry_out, container, run, runbook, request))


def begun_run(run: Run, go_on: "Callable[[], Awaitable[object]]") -> Begun:
    """A run that goes on in this process, with a page of its own."""
    run_id = secrets.token_hex(8)
    RUNS[run_id] = run
    while len(RUNS) > _KEPT:
        RUNS.popitem(last=False)
    return Begun(f"runs/{run_id}", go_on)


def _filled(container: "Container", request: ActionRequest) -> "tuple[Runbook, Instance | None]":
    user = request.value("instance")
    instance = container.instances.find(user) if user else None
    return container.runbook_records.filled(load(assets.folder("runbooks"), request.subject.id), instance), instance


async def _carry_out(container: "Container", run: Run, runbook: "Runbook", request: ActionRequest) -> None:
    """Run the steps, each in a child process, and keep the transcript; a console that ends interrupts the step."""
    loop, user, picked = asyncio.get_running_loop(), request.value("instance"), request.value("step")
    children: list[Future[Ended]] = []

    def execute(words: tuple[str, ...]) -> "Ended":
        env, show = container.env, unseen if is_reading(words) else run.show
        command = run_command(words, environment=env.name, variables=variables_of(env), show=show)
        children.append(asyncio.run_coroutine_threadsafe(command, loop))
        return children[-1].result()

    steps = RunbookRun(
        runbook,
        user,
        execute=execute,
        ask=lambda step: agreed(step, picked),
        report=run.report,
        show=run.show,
    )
    try:
        failure = await asyncio.to_thread(_failure_of, steps, picked)
    except asyncio.CancelledError:
        for child in children:
            child.cancel()
        raise
    run.result = shapes.run(steps, run.instance, failure)
    await asyncio.to_thread(container.runbook_records.keep, runbook, run.instance, steps.transcript())
    await ask_agent(container, run.instance.id if run.instance else None)


def _failure_of(steps: RunbookRun, picked: str) -> HermesError | None:
    """Run the steps; the reason why they did not come to their end, ``None`` where they did."""
    try:
        steps.run(picked)
    except HermesError as error:
        return error
    return None


ACTIONS: Sequence[Action] = (
    Action(
        About.RUNBOOK,
        "run",
        "Run the runbook",
        ("runbook", "run", "--yes"),
        RunbookWork(),
        (ActionValue("instance", "User", "--instance"), ActionValue("step", "From step", "--from")),
        takes_reason=False,
        left_because="its steps run with all rights of an operator's computer; those that are actions have pages",
    ),
)
