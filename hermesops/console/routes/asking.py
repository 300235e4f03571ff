"""Pages for which JustAVPS, machines or the platform are asked: a page comes at once, its content with the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.agents.drift.compare import FIELDS
from hermesops.base.typed_values import since
from hermesops.console.actions import bulk
from hermesops.console.actions.action import About
from hermesops.console.actions.table import about, page_of_command
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.errors import HermesError, Hint
from hermesops.model.fleet.selector import Selector
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.platform.connection.settings import is_connected
from hermesops.users.billing.model_usage import By
from hermesops.views import platform as platform_shapes
from hermesops.views import stacks as stack_shapes
from hermesops.views.agents import cells as cell_shapes
from hermesops.views.agents import costs as cost_shapes
from hermesops.views.agents import drift as drift_shapes
from hermesops.views.automation import jobs as job_shapes

if TYPE_CHECKING:
    from hermesops.agents.drift.finding import Finding
    from hermesops.app.container import Container

_CHANGES = "24h"
"""Time of changes, as the command has it by default."""

_MOST = 500
"""Newest changes that are shown."""

_USAGE = timedelta(days=30)
"""Time of models' use on the page of costs."""


@dataclass(frozen=True)
class Question:
    """A page for which others are asked.

    Attributes:
        name: Its path, and its template.
        words: Of its command.
        ask: Returns the shape of its content; given the filters of the address.
        filters: Names of options of the command that the page has too.
        columns: Of its rows, where it is a plain list; else it has a template of its own.
    """

    name: str
    title: str
    words: tuple[str, ...]
    ask: "Callable[[Container, Mapping[str, str]], Awaitable[Mapping[str, Any]]]"
    filters: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def command(self, filters: Mapping[str, str]) -> tuple[str, ...]:
        """The command that asks the same."""
        options = [word for name in self.filters if filters.get(name) for word in (f"--{name}", filters[name])]
        return (*self.words, *options)


async def _drift(container: "Container", filters: Mapping[str, str]) -> Mapping[str, Any]:
    selector = Selector.parse(filters.get("where", ""), fields=FIELDS)
    async with container.connect() as connected:
        findings = await connected.drift.findings(selector, deep=False)
    pages = await asyncio.to_thread(_repairs, container, findings)
    return {**drift_shapes.drift(findings), "pages": pages, "several": bulk.pages_of(pages)}


def _repairs(container: "Container", findings: "Sequence[Finding]") -> Sequence[str]:
    """The page of the first repair of each finding; empty where it has none."""
    commands = [next(iter(finding.repair), Hint()) for finding in findings]
    words = [next((part for part in hint.parts if isinstance(part, tuple)), ()) for hint in commands]
    return [page_of_command(container, command) for command in words]


async def _cost(container: "Container", _filters: Mapping[str, str]) -> Mapping[str, Any]:
    costs = await container.read_costs()
    begin = (await asyncio.to_thread(container.now) - _USAGE).date()
    sums, total = await asyncio.to_thread(partial(container.model_usage.sums, begin, by=By.MODEL, user=""))
    return {"cost": cost_shapes.cost(costs), "usage": [cost_shapes.usage(row) for row in [*sums, total]]}


async def _jobs(container: "Container", _filters: Mapping[str, str]) -> Mapping[str, Any]:
    async with container.connect() as connected:
        states = await asyncio.to_thread(connected.jobs.states)
    return {"rows": [job_shapes.job(state) for state in states]}


async def _changes(container: "Container", filters: Mapping[str, str]) -> Mapping[str, Any]:
    begin = since(filters.get("since") or _CHANGES, now=await asyncio.to_thread(container.now))
    happenings = await container.read_happenings(begin)
    return {"rows": drift_shapes.changes(happenings)[: -_MOST - 1 : -1]}


async def _platform(container: "Container", _filters: Mapping[str, str]) -> Mapping[str, Any]:
    connected = is_connected(container.env)
    if not container.env.is_local:
        outputs, links = await container.aws_platform_stack.addresses()
        return platform_shapes.show(outputs, links, None, connected=connected)
    async with container.platform() as parts:
        return platform_shapes.show(*await parts.overview(), connected=connected)


QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question("drift", "Drift", ("fleet", "drift"), _drift, ("where",)),
        Question("cost", "Cost", ("fleet", "cost"), _cost),
        Question(
            "changes",
            "Changes of the fleet",
            ("fleet", "changes"),
            _changes,
            ("since",),
            ("at", "who", "what", "subject", "detail"),
        ),
        Question("jobs", "Jobs", ("job", "list"), _jobs, (), ("job", "due", "last", "problem", "next", "done")),
        Question("platform", "Platform", ("platform", "show"), _platform),
    )
}
"""By their paths."""


async def show(question: Question, request: Request) -> Response:
    """The page, without its content."""
    chosen = {name: request.query_params.get(name, "") for name in question.filters}
    return console_of(request).pages.page("asking", question=question, chosen=chosen, query=request.url.query)


async def answer(question: Question, request: Request) -> Response:
    """The content of a page, or why it is unknown."""
    console = console_of(request)
    chosen = {name: request.query_params.get(name, "") for name in question.filters}
    try:
        shape = await question.ask(console.container, chosen)
    except HermesError as problem:
        return console.pages.page("unknown", problem=problem)
    if question.columns:
        return console.pages.page("answers/rows", columns=question.columns, **shape)
    return console.pages.page(f"answers/{question.name}", **shape)


async def cell(request: Request) -> Response:
    """A cell with its machines; its stack is asked for by ``preview``."""
    console, name = console_of(request), request.path_params["name"]
    view = await asyncio.to_thread(console.container.cells.view, name)
    size = console.container.env.settings.cell_size
    shape = cell_shapes.show(view, size=size, pending=None)
    is_pooled = any(machine.role is MachineRole.WARM for machine in view.unassigned)
    offered = [name for name in about(About.CELL) if is_pooled or name != "drain-pool"]
    return console.pages.page("cell", cell=shape, actions=console.actions(About.CELL), offered=offered)


async def cell_preview(request: Request) -> Response:
    """The changes that the next run of a cell's stack would make."""
    console = console_of(request)
    try:
        name = (await asyncio.to_thread(console.container.cells.view, request.path_params["name"])).cell.name
        run = await console.container.cell_stacks.preview(name)
    except HermesError as problem:
        return console.pages.page("unknown", problem=problem)
    return console.pages.page("answers/stack", changes=stack_shapes.changes(run.changes))


ROUTES = (
    *(Route(f"{PREFIX}{question.name}", partial(show, question)) for question in QUESTIONS.values()),
    *(Route(f"{PREFIX}{question.name}/answer", partial(answer, question)) for question in QUESTIONS.values()),
    Route(f"{PREFIX}cells/{{name}}", cell),
    Route(f"{PREFIX}cells/{{name}}/preview", cell_preview),
)
