"""Pages for which JustAVPS, machines or the platform are asked: a page comes at once, its content with the answer."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions.action import About
from hermesops.console.actions.table import about
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.topics.questions import OF_OPERATORS, QUESTIONS, Question
from hermesops.errors import HermesError
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.views import stacks as stack_shapes
from hermesops.views.agents import cells as cell_shapes


async def show(question: Question, request: Request) -> Response:
    """The page, without its content."""
    chosen = {name: request.query_params.get(name, "") for name in question.filters}
    return console_of(request).pages.page("asking", question=question, chosen=chosen, query=request.url.query)


async def answer(question: Question, request: Request) -> Response:
    """The content of a page, or why it is unknown."""
    console = console_of(request)
    chosen = {name: request.query_params.get(name, "") for name in question.filters}
    try:
        shape = await console.running.answer(question, chosen)
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


_CELL = Route(f"{PREFIX}cells/{{name}}", cell)


def _routes(questions: Iterable[Question]) -> Iterator[Route]:
    for question in questions:
        yield Route(f"{PREFIX}{question.name}", partial(show, question))
        yield Route(f"{PREFIX}{question.name}/answer", partial(answer, question))


ROUTES = (*_routes(QUESTIONS.values()), _CELL, Route(f"{PREFIX}cells/{{name}}/preview", cell_preview))

SERVED = (*_routes(OF_OPERATORS.values()), _CELL)
"""Of the served console, whose workers ask; the preview of a cell's action shows the changes of its stack."""
