"""Operations: the list of recent ones, and each with its steps."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions.action import About
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.views.listing import containing


async def list_(request: Request) -> Response:
    """Operations that have not ended, then those that have; ``q`` of the address chooses them."""
    console, text, topic = console_of(request), request.query_params.get("q", ""), Topic("operations")
    snapshot = await console.sources.snapshot(topic)
    shape = snapshot.shape
    return console.pages.page(
        "operations",
        topic=topic,
        digest=snapshot.digest,
        running=containing(shape["unfinished"], text),
        left_out=shape["unfinished_count"] - len(shape["unfinished"]),
        ended=containing(shape["ended"], text),
        filters={"q": text},
    )


async def show(request: Request) -> Response:
    """One operation with its steps and its audit entries."""
    console, topic = console_of(request), Topic("operation", request.path_params["id"])
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page(
        "operation",
        topic=topic,
        digest=snapshot.digest,
        actions=console.actions(About.OPERATION),
        operation=snapshot.shape,
    )


ROUTES = (Route(f"{PREFIX}operations", list_), Route(f"{PREFIX}operations/{{id}}", show))
