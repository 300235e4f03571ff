"""Pages for which JustAVPS, machines or the platform are asked. The served console has workers ask.

Nothing here serves pages, so that workers import it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from hermesops.agents.drift.compare import FIELDS
from hermesops.base.typed_values import since
from hermesops.console.actions import bulk
from hermesops.console.actions.command_pages import Offer, page_of_command
from hermesops.errors import Hint
from hermesops.model.access.console_operator import Role
from hermesops.model.fleet.selector import Selector
from hermesops.platform.connection.settings import is_connected
from hermesops.users.billing.model_usage import By
from hermesops.views import platform as platform_shapes
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
        ask: Returns the shape of its content; given the filters of the address, and the actions of its repairs.
        filters: Names of options of the command that the page has too.
        columns: Of its rows, where it is a plain list; else it has a template of its own.
        role: Of operators of the served console who may ask; ``None`` where that does not offer it.
    """

    name: str
    title: str
    words: tuple[str, ...]
    ask: "Callable[[Container, Mapping[str, str], Offer], Awaitable[Mapping[str, Any]]]"
    filters: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    role: Role | None = None

    def command(self, filters: Mapping[str, str]) -> tuple[str, ...]:
        """The command that asks the same."""
        options = [word for name in self.filters if filters.get(name) for word in (f"--{name}", filters[name])]
        return (*self.words, *options)


async def _drift(container: "Container", filters: Mapping[str, str], offer: Offer) -> Mapping[str, Any]:
    selector = Selector.parse(filters.get("where", ""), fields=FIELDS)
    async with container.connect() as connected:
        findings = await connected.drift.findings(selector, deep=False)
    pages = await asyncio.to_thread(_repairs, container, findings, offer)
    return {**drift_shapes.drift(findings), "pages": pages, "several": bulk.pages_of(pages)}


def _repairs(container: "Container", findings: "Sequence[Finding]", offer: Offer) -> Sequence[str]:
    """The page of the first repair of each finding; empty where it has none."""
    commands = [next(iter(finding.repair), Hint()) for finding in findings]
    words = [next((part for part in hint.parts if isinstance(part, tuple)), ()) for hint in commands]
    return [page_of_command(container, command, offer) for command in words]


async def _cost(container: "Container", _filters: Mapping[str, str], _offer: Offer) -> Mapping[str, Any]:
    costs = await container.read_costs()
    begin = (await asyncio.to_thread(container.now) - _USAGE).date()
    sums, total = await asyncio.to_thread(partial(container.model_usage.sums, begin, by=By.MODEL, user=""))
    return {"cost": cost_shapes.cost(costs), "usage": [cost_shapes.usage(row) for row in [*sums, total]]}


async def _jobs(container: "Container", _filters: Mapping[str, str], _offer: Offer) -> Mapping[str, Any]:
    async with container.connect() as connected:
        states = await asyncio.to_thread(connected.jobs.states)
    return {"rows": [job_shapes.job(state) for state in states]}


async def _changes(container: "Container", filters: Mapping[str, str], _offer: Offer) -> Mapping[str, Any]:
    begin = since(filters.get("since") or _CHANGES, now=await asyncio.to_thread(container.now))
    happenings = await container.read_happenings(begin)
    return {"rows": drift_shapes.changes(happenings)[: -_MOST - 1 : -1]}


async def _platform(container: "Container", _filters: Mapping[str, str], _offer: Offer) -> Mapping[str, Any]:
    connected = is_connected(container.env)
    if not container.env.is_local:
        outputs, links = await container.aws_platform_stack.addresses()
        return platform_shapes.show(outputs, links, None, connected=connected)
    async with container.platform() as parts:
        return platform_shapes.show(*await parts.overview(), connected=connected)


QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question("drift", "Drift", ("fleet", "drift"), _drift, ("where",), role=Role.OPERATOR),
        Question("cost", "Cost", ("fleet", "cost"), _cost, role=Role.OPERATOR),
        Question(
            "changes",
            "Changes of the fleet",
            ("fleet", "changes"),
            _changes,
            ("since",),
            ("at", "who", "what", "subject", "detail"),
            Role.OPERATOR,
        ),
        Question(
            "jobs", "Jobs", ("job", "list"), _jobs, (), ("job", "due", "last", "problem", "next", "done"), Role.OPERATOR
        ),
        Question("platform", "Platform", ("platform", "show"), _platform),
    )
}
"""By their paths."""

OF_OPERATORS: Mapping[str, Question] = {name: question for name, question in QUESTIONS.items() if question.role}
"""Those of the served console."""
