"""Changes of an instance: the preview with the command of the same effect, then the operation."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.changes import CHANGES, Change
from hermesops.console.front import PREFIX
from hermesops.console.parts import Console, console_of
from hermesops.errors import HermesError, UsageError, require_reason
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from hermesops.views.agents import change_words
from hermesops.views.agents.change_previews import change_preview

_FIELDS = 5
_LONGEST = 500
"""Characters of a reason."""


async def preview(request: Request) -> Response:
    """The steps, downtime, cost and losses of a change, or the reason of its refusal; nothing is changed."""
    console = console_of(request)
    change, instance = await _chosen(console, request.path_params)
    values = {
        "change": change,
        "id": instance.id,
        "name": request.path_params["change"],
        "command": change.command(await console.changes.user_of(instance)),
        "title": instance.title,
    }
    try:
        planned = await console.changes.preview(change, instance)
    except HermesError as refusal:
        return console.pages.page("change", refusal=refusal, planned=None, words=None, **values)
    return console.pages.page(
        "change", refusal=None, planned=change_preview(planned), words=change_words.sentences(planned), **values
    )


async def begin(request: Request) -> Response:
    """Open the operation, and lead the browser to its page."""
    console = console_of(request)
    change, instance = await _chosen(console, request.path_params)
    reason = _reason(await request.body())
    require_reason(reason, *change.words, instance.title)
    operation = await console.changes.open(change, instance, reason)
    # https://htmx.org/headers/hx-redirect/: the browser goes there as by a link.
    return Response(status_code=HTTPStatus.OK, headers={"hx-redirect": f"{PREFIX}operations/{operation.id}"})


async def _chosen(console: Console, path: Mapping[str, str]) -> tuple[Change, Instance]:
    change = CHANGES.get(path["change"])
    if change is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return change, await asyncio.to_thread(console.container.instances.get, InstanceId(path["id"]))


def _reason(body: bytes) -> str:
    try:
        fields = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError as error:  # UnicodeDecodeError is one
        raise UsageError("this is no form of the console") from error
    reason = " ".join(fields.get("reason", [""])[0].split())
    if len(reason) > _LONGEST or not reason.isprintable():
        raise UsageError(f"a reason has at most {_LONGEST} characters, all of them visible", field="reason")
    return reason


_PATH = f"{PREFIX}instances/{{id}}/change/{{change}}"

ROUTES = (Route(_PATH, preview), Route(_PATH, begin, methods=["POST"]))
