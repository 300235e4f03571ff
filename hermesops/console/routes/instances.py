"""The list of instances, and the page of each."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions import bulk
from hermesops.console.actions.action import About
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.plots import Plot, plot_of
from hermesops.console.sources import Topic
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.metrics.figures import Figure
from hermesops.observability.telemetry.metrics.figures import text as text_of
from hermesops.observability.telemetry.metrics.trends import SPAN
from hermesops.views.agents import drift as drift_shapes
from hermesops.views.agents.instance_reports import report as report_shape
from hermesops.views.observability.trends import TITLES

_EVENTS = 100
"""Newest events of a timeline that are shown."""


async def list_(request: Request) -> Response:
    """Instances, a hundred at once; ``where``, ``q`` and ``page`` of the address choose them."""
    console, filters = console_of(request), {name: request.query_params.get(name, "") for name in ("where", "q")}
    given = {**filters, "page": request.query_params.get("page", "1")}
    topic = Topic("instances", urlencode({name: value for name, value in given.items() if value}))
    snapshot, offered = await console.sources.snapshot(topic), console.actions(About.INSTANCE)
    return console.pages.page(
        "instances",
        topic=topic,
        bulk_actions={name: action for name, action in bulk.actions().items() if name in offered},
        bulk_most=bulk.MOST,
        digest=snapshot.digest,
        page=snapshot.shape["page"],
        others=urlencode(filters),
        filters=filters,
    )


async def show(request: Request) -> Response:
    """One instance, as the registry has it; its report and timeline follow, since others are asked for them."""
    console, topic = console_of(request), Topic("instance", request.path_params["id"])
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page(
        "instance",
        topic=topic,
        digest=snapshot.digest,
        actions=console.actions(About.INSTANCE),
        left=console.left(About.INSTANCE),
        id=topic.name,
        **snapshot.shape,
    )


async def report(request: Request) -> Response:
    """The part that JustAVPS, the machine and monitoring are asked for."""
    console = console_of(request)
    instance = await asyncio.to_thread(console.container.instances.get, InstanceId(request.path_params["id"]))
    shape = report_shape(await console.container.instance_report(instance), console.container.now())
    return console.pages.page("report", HTTPStatus.OK, plots=_plots(shape["trends"]), **shape)


async def timeline(request: Request) -> Response:
    """The history of an instance, the newest event first."""
    console = console_of(request)
    instance = await asyncio.to_thread(console.container.instances.get, InstanceId(request.path_params["id"]))
    past = await console.container.timelines.of(instance, None)
    rows = drift_shapes.changes(past.happenings)
    return console.pages.page("timeline", rows=rows[: -_EVENTS - 1 : -1], count=len(rows), problem=past.problem)


def _plots(trends: Any) -> Sequence[tuple[str, str, Plot]]:  # noqa: ANN401 - JSON
    """The title, the present value in words and the line of each figure over the last hour."""
    begin, step_s = datetime.fromisoformat(trends["begin"]), trends["step_s"]
    plots = []
    for name, points in trends["points"].items():
        timed = [(datetime.fromisoformat(at), value) for at, value in points]
        plot = plot_of(timed, begin, begin + SPAN, gap_s=2 * step_s)
        plots.append((TITLES[name], text_of(Figure(name), plot.last), plot))
    return plots


_ONE = f"{PREFIX}instances/{{id}}"

ROUTES = (
    Route(f"{PREFIX}instances", list_),
    Route(_ONE, show),
    Route(f"{_ONE}/report", report),
    Route(f"{_ONE}/timeline", timeline),
)
