"""The stream of events that a page listens to."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic


async def stream(request: Request) -> Response:
    """Events about the topic ``kind`` and ``name``; ``digest`` is of the content that the page shows."""
    console, query = console_of(request), request.query_params
    topic = Topic(query.get("kind", ""), query.get("name", ""))
    console.streams.refuse_too_many()
    await console.sources.snapshot(topic)  # an unknown topic is refused as an error
    return StreamingResponse(
        console.streams.events(topic, query.get("digest", "")),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


ROUTES = (Route(f"{PREFIX}events", stream),)
