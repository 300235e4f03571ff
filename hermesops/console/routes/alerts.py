"""Open alerts, each with its runbook."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.views.listing import containing


async def list_(request: Request) -> Response:
    """Open alerts, the most urgent and oldest first; ``q`` of the address chooses them."""
    console, text, topic = console_of(request), request.query_params.get("q", ""), Topic("alerts")
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page(
        "alerts",
        topic=topic,
        digest=snapshot.digest,
        alerts=snapshot.shape,
        rows=containing(snapshot.shape["alerts"], text),
        filters={"q": text},
    )


ROUTES = (Route(f"{PREFIX}alerts", list_),)
