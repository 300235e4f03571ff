"""Lists that show the rows of a command, and the page that names them."""

import asyncio
from functools import partial
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.actions.action import About
from hermesops.console.front import PREFIX
from hermesops.console.paging import page_of
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.console.topics.listings import LISTINGS, OF_OPERATORS, Listing
from hermesops.views.listing import containing


async def show(listing: Listing, request: Request) -> Response:
    """A list, a hundred rows at once; ``q``, ``page`` and the options of its command choose them."""
    console, query = console_of(request), request.query_params
    text, chosen = query.get("q", ""), {name: query.get(name, "") for name in listing.filters}
    given = {name: value for name, value in chosen.items() if value}
    topic = Topic("listing", f"{listing.name}?{urlencode(given)}")
    snapshot = await console.sources.snapshot(topic)
    page = page_of(containing(snapshot.shape["rows"], text), query.get("page", "1"))
    return console.pages.page(
        "listing",
        topic=topic,
        digest=snapshot.digest,
        listing=listing,
        actions={name: action for name, action in console.actions(About.FLEET).items() if name in listing.actions},
        command=listing.command(chosen),
        page=page,
        chosen=chosen,
        others=urlencode({**given, "q": text}),
        filters={"q": text},
    )


async def more(request: Request) -> Response:
    """Every list, and the pages for which others are asked."""
    console = console_of(request)
    links = await asyncio.to_thread(console.links.list)
    return console.pages.page(
        "more",
        listings=console.lists,
        questions=console.questions,
        actions=console.actions(About.FLEET),
        left=console.left(About.FLEET, About.DRILL),
        links=links,
    )


ROUTES = (
    Route(f"{PREFIX}more", more),
    *(Route(f"{PREFIX}{listing.name}", partial(show, listing)) for listing in LISTINGS.values()),
)

SERVED = tuple(route for route in ROUTES if route.path.removeprefix(PREFIX) in {"more", *OF_OPERATORS})
"""Of the served console."""
