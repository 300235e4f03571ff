"""The first page: everything that is wrong now, with its reason and its next step, then the fleet in numbers."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.console.topics.fleet import FILTERS


async def show(request: Request) -> Response:
    """The fleet; the filters of the address choose the rows."""
    console = console_of(request)
    filters = {name: request.query_params.get(name, "") for name in FILTERS}
    topic = Topic("fleet", urlencode({name: value for name, value in filters.items() if value}))
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page("fleet", topic=topic, digest=snapshot.digest, filters=filters, **snapshot.shape)


ROUTES = (Route(PREFIX, show),)
