"""Each release with its contents, and its differences from another one."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.machines.release.diff import compare
from hermesops.views.machines import releases as shapes


async def show(request: Request) -> Response:
    """A release; ``against`` of the address chooses another one, from which it differs so."""
    console, against = console_of(request), request.query_params.get("against", "")
    container = console.container
    lock = await asyncio.to_thread(container.releases.find, request.path_params["id"])
    other = await asyncio.to_thread(container.releases.find, against) if against else None
    agents = await asyncio.to_thread(container.instance_list.agents_by_release)
    rows = await asyncio.to_thread(container.releases.list)
    return console.pages.page(
        "release",
        release=shapes.lock(lock),
        revoked=next((row.revoked for row in rows if row.id == lock.id), ""),
        agents=agents.get(lock.id, ()),
        others=[row.id for row in rows if row.id != lock.id],
        against=other.id if other else "",
        compared=shapes.compared(other.id, lock.id, compare(other, lock)) if other else None,
    )


ROUTES = (Route(f"{PREFIX}releases/{{id}}", show),)
