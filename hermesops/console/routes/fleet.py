"""The first page: everything that is wrong now, with its reason and its next step, then the fleet in numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.model.fleet.health import Condition
from hermesops.views.listing import containing

_MOST = 100
"""Rows of each list; a link leads to the others."""


async def show(request: Request) -> Response:
    """The fleet; ``where``, ``health`` and ``q`` of the address choose the rows."""
    console, query = console_of(request), request.query_params
    where, health, text = query.get("where", ""), query.get("health", ""), query.get("q", "")
    topic = Topic("fleet", where)
    snapshot = await console.sources.snapshot(topic)
    rows = containing([row for row in snapshot.shape["trouble"] if not health or row["health"] == health], text)
    wrong = [row for row in rows if not _is_unknown(row)]
    unknown = [row for row in rows if _is_unknown(row)]
    return console.pages.page(
        "fleet",
        topic=topic,
        digest=snapshot.digest,
        fleet=snapshot.shape,
        wrong=wrong[:_MOST],
        wrong_count=len(wrong),
        unknown=unknown[:_MOST],
        unknown_count=len(unknown),
        conditions=_counted(snapshot.shape["by_health"]),
        filters={"where": where, "health": health, "q": text},
    )


def _is_unknown(row: Mapping[str, Any]) -> bool:
    """Whether nothing is known to be wrong, and nothing to be well."""
    return bool(row["health"] == Condition.UNKNOWN and not row["alerts"])


def _counted(by_health: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Conditions with their counts, the worst first."""
    return [(condition.value, by_health[condition]) for condition in Condition if condition in by_health]


ROUTES = (Route(PREFIX, show),)
