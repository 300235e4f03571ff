"""Bulk actions: the preview of each instance, then their operations, and once more those that failed."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions import bulk
from hermesops.console.actions.action import Action
from hermesops.console.front import PREFIX
from hermesops.console.parts import Console, console_of
from hermesops.console.routes.forms import form_of, reason_in
from hermesops.console.sources import Topic
from hermesops.console.topics.instances import chosen
from hermesops.model.ids import InstanceId


async def show(request: Request) -> Response:
    """The preview of each instance; ``where`` and ``q`` of the address choose them, or ``ids``."""
    console = console_of(request)
    action = _chosen(console, request)
    ids, values = await _ids(console, request), action.values(request.query_params)
    missing = action.missing(values)
    parts = [] if missing else await bulk.previews(console.running, action, ids, values)
    return console.pages.page(
        "bulk",
        action=action,
        path=request.url.path,
        query=request.url.query,
        values=values,
        missing=missing,
        count=len(ids),
        parts=parts,
        selection={name: request.query_params.get(name, "") for name in ("where", "q", "ids")},
    )


async def begin(request: Request) -> Response:
    """Open the operations, and lead the browser to their page."""
    console, form = console_of(request), form_of(await request.body())
    action = _chosen(console, request)
    ids, values = await _ids(console, request), action.values(request.query_params)
    reason = reason_in(form, console, action, *action.words, "USER")
    opened = await bulk.begin(console.running, action, ids, values, reason)
    parts = {"of": opened.operations, "refused": opened.refused, "undecided": opened.undecided}
    query = {"action": action.name, **{name: ",".join(ids) for name, ids in parts.items() if ids}}
    return Response(status_code=HTTPStatus.OK, headers={"hx-redirect": f"{PREFIX}batch?{urlencode(query)}"})


async def batch(request: Request) -> Response:
    """The operations of a bulk action, by the ids of the address: reload and crash lose nothing."""
    console, query = console_of(request), request.query_params
    topic = Topic("batch", "?".join(query.get(name, "") for name in ("of", "refused", "undecided")))
    snapshot = await console.sources.snapshot(topic)
    failed = [*snapshot.shape["failed"], *(row["id"] for row in snapshot.shape["refused"])]
    return console.pages.page(
        "batch",
        topic=topic,
        digest=snapshot.digest,
        name=query.get("action", ""),
        operations=snapshot.shape["operations"],
        failed=failed,
        refused=snapshot.shape["refused"],
        undecided=snapshot.shape["undecided"],
        again=urlencode({"ids": ",".join(failed)}),
    )


def _chosen(console: Console, request: Request) -> Action:
    action = bulk.actions().get(request.path_params["action"])
    if action is None or not console.running.offers(action):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return console.running.offered(action)


async def _ids(console: Console, request: Request) -> Sequence[InstanceId]:
    """Ids of the chosen instances: those of the address, or those that a filter takes."""
    query = request.query_params
    if named := query.get("ids", ""):
        ids = [InstanceId(text) for text in named.split(",")]
        bulk.refuse_wrong_count(ids)
        return [(await asyncio.to_thread(console.container.instances.get, each)).id for each in ids]
    return await asyncio.to_thread(chosen, console.container, query.get("where", ""), query.get("q", ""))


_PATH = f"{PREFIX}bulk/{{action}}"

ROUTES = (
    Route(_PATH, show),
    Route(_PATH, begin, methods=["POST"]),
    Route(f"{PREFIX}batch", batch),
)
