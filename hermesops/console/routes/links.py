"""Saved links of an operator: kept and forgotten; the page of all lists has them."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.routes.forms import form_of


async def add(request: Request) -> Response:
    """Keep a page by a name."""
    console, form = console_of(request), form_of(await request.body())
    await console.links.add(form.get("name", ""), form.get("page", ""))
    return _to_list()


async def remove(request: Request) -> Response:
    """Forget a link."""
    console, form = console_of(request), form_of(await request.body())
    await console.links.remove(form.get("name", ""))
    return _to_list()


def _to_list() -> Response:
    return Response(status_code=HTTPStatus.OK, headers={"hx-redirect": f"{PREFIX}more"})


ROUTES = (
    Route(f"{PREFIX}links", add, methods=["POST"]),
    Route(f"{PREFIX}links/remove", remove, methods=["POST"]),
)
