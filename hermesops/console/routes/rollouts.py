"""Rollouts: the list with freezes, and each with its stages, gates, decisions and actions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions.action import About
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.plots import Plot, plot_of
from hermesops.console.sources import Topic
from hermesops.views.listing import containing

_MOST = 100
"""Agents of a rollout that are listed; a search finds the others."""


async def list_(request: Request) -> Response:
    """Rollouts that have not ended, then those that have; ``q`` of the address chooses them."""
    console, text, topic = console_of(request), request.query_params.get("q", ""), Topic("rollouts")
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page(
        "rollouts",
        topic=topic,
        digest=snapshot.digest,
        rollouts=snapshot.shape,
        actions=console.actions(About.FLEET),
        unfinished=containing(snapshot.shape["unfinished"], text),
        ended=containing(snapshot.shape["ended"], text),
        filters={"q": text},
    )


async def show(request: Request) -> Response:
    """One rollout; agents that change or failed come first, ``q`` of the address chooses them."""
    console, text = console_of(request), request.query_params.get("q", "")
    topic = Topic("rollout", request.path_params["id"])
    snapshot = await console.sources.snapshot(topic)
    targets = sorted(containing(snapshot.shape["targets"], text), key=_is_calm)
    return console.pages.page(
        "rollout",
        topic=topic,
        digest=snapshot.digest,
        actions=console.actions(About.ROLLOUT),
        id=topic.name,
        shown=targets[:_MOST],
        count=len(targets),
        filters={"q": text},
        plot=_progress(snapshot.shape),
        **snapshot.shape,
    )


def _progress(shape: Mapping[str, Any]) -> Plot:
    """How many agents ran the release, from the start until now or until the end."""
    rollout = shape["rollout"]
    begin = datetime.fromisoformat(rollout["created_at"])
    end = datetime.fromisoformat(rollout["updated_at"]) if shape["has_ended"] else datetime.now(UTC)
    times = sorted(target["updated_at"] for target in shape["targets"] if target["on_release"] and target["updated_at"])
    points = [(begin, 0.0), *((datetime.fromisoformat(at), float(number)) for number, at in enumerate(times, 1))]
    return plot_of(points, begin, max(end, points[-1][0]), gap_s=inf)


async def approvals(request: Request) -> Response:
    """Stages that wait for a second operator, and the commands with which they sign."""
    console, topic = console_of(request), Topic("approvals")
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page("approvals", topic=topic, digest=snapshot.digest, rows=snapshot.shape["rollouts"])


def _is_calm(target: object) -> bool:
    """Whether nothing happens to a target, and nothing has failed."""
    return isinstance(target, dict) and target["state"] in {"waiting", "healthy", "deferred", "soaking"}


ROUTES = (
    Route(f"{PREFIX}rollouts", list_),
    Route(f"{PREFIX}rollouts/{{id}}", show),
    Route(f"{PREFIX}approvals", approvals),
)
