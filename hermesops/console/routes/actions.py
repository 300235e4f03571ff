"""Actions: the values, the preview with the command of the same effect, then the page of what has begun."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions.action import About, Action, ActionRequest, Subject
from hermesops.console.actions.table import find, subject_of
from hermesops.console.front import PREFIX
from hermesops.console.parts import Console, console_of
from hermesops.console.routes.forms import form_of, reason_in
from hermesops.errors import HermesError, UsageError


async def show(request: Request) -> Response:
    """The effects of an action, or the reason of its refusal; nothing is changed. Values are in the address."""
    console = console_of(request)
    action, subject = await _chosen(console, request.path_params)
    values = action.values(request.query_params)
    wanted = ActionRequest(subject, values)
    missing, preview, problem = action.missing(values), None, None
    if not missing:
        try:
            preview = await console.running.preview(action, wanted)
        except HermesError as refusal:
            problem = refusal
    return console.pages.page(
        "action",
        action=action,
        subject=subject,
        path=request.url.path,
        values=values,
        command=action.command(wanted),
        missing=missing,
        preview=preview,
        refusal=problem,
    )


async def begin(request: Request) -> Response:
    """Begin an action, and lead the browser to its page."""
    console = console_of(request)
    action, subject = await _chosen(console, request.path_params)
    form = form_of(await request.body())
    values = action.values(form)
    if missing := action.missing(values):
        raise UsageError("missing", field=missing[0].name)
    command = action.command(ActionRequest(subject, values))
    wanted = ActionRequest(subject, values, reason_in(form, console, action, *command[:-2]))  # without --reason
    if action.destroys and form.get("typed", "").strip() != subject.title:
        raise UsageError(f"type {subject.title} to confirm; nothing was changed", field="typed")
    page = await console.running.begin(action, wanted)
    # https://htmx.org/headers/hx-redirect/: the browser goes there as by a link.
    return Response(status_code=HTTPStatus.OK, headers={"hx-redirect": f"{PREFIX}{page}"})


async def _chosen(console: Console, path: Mapping[str, str]) -> tuple[Action, Subject]:
    action = find(path.get("about", About.FLEET), path["action"])
    if action is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return console.running.offered(action), await subject_of(console.container, action.about, path.get("id", ""))


_PATHS = (f"{PREFIX}change/{{action}}", f"{PREFIX}{{about}}/{{id}}/change/{{action}}")
"""Of actions of the fleet, and of those of one subject."""

ROUTES = tuple(route for path in _PATHS for route in (Route(path, show), Route(path, begin, methods=["POST"])))
