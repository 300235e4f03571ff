"""Plots that pages load after they are shown: the platform's Prometheus is asked for them."""

import asyncio
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.plots import plots_of
from hermesops.errors import HermesError
from hermesops.model.fleet.health import Condition
from hermesops.observability.telemetry.metrics.history import Past, gap_of
from hermesops.views.observability.trends import history as shape_of


async def fleet(request: Request) -> Response:
    """The health of all instances over the last day, or the cost of all machines over the last 30 days."""
    console, name = console_of(request), request.path_params["name"]
    if name not in list(Past):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    try:
        history = shape_of(await console.sources.history(Past(name)))
    except HermesError as problem:
        return console.pages.page("unknown", problem=problem)
    plots = plots_of(history)
    worst_first = [condition.value for condition in Condition if condition in plots] or list(plots)
    return console.pages.page(f"plots/{name}", plots={key: plots[key] for key in worst_first}, history=history)


async def gap(request: Request) -> Response:
    """Whether an agent answered around an operation."""
    console = console_of(request)
    directory = console.container.operation_directory
    operation = await asyncio.to_thread(directory.get, request.path_params["id"])
    if operation.instance_id is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    ended_at = operation.updated_at if operation.status.has_ended else None
    try:
        client, now = await console.sources.monitoring(), await asyncio.to_thread(console.container.now)
    except HermesError as problem:
        return console.pages.page("unknown", problem=problem)
    past = await gap_of(client, operation.instance_id, operation.created_at, ended_at, now)
    history = shape_of(past)
    plot = plots_of(history).get("")
    return console.pages.page("plots/gap", plot=plot, history=history, unanswered_s=past.below_one_s)


ROUTES = (Route(f"{PREFIX}plots/{{name}}", fleet), Route(f"{PREFIX}plots/gaps/{{id}}", gap))
