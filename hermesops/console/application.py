"""The application: its routes, and pages for errors."""

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hermesops.console.front import Front
from hermesops.console.operators.gate import Gate
from hermesops.console.parts import Console, console_of
from hermesops.console.routes import (
    actions,
    alerts,
    asking,
    assets,
    bulk,
    events,
    fleet,
    instances,
    links,
    listings,
    operations,
    plots,
    releases,
    rollouts,
    runbooks,
)
from hermesops.errors import HermesError, RefusedError, UnavailableError, UsageError

ROUTES = (
    *fleet.ROUTES,
    *instances.ROUTES,
    *actions.ROUTES,
    *bulk.ROUTES,
    *operations.ROUTES,
    *plots.ROUTES,
    *rollouts.ROUTES,
    *alerts.ROUTES,
    *runbooks.ROUTES,
    *releases.ROUTES,
    *listings.ROUTES,
    *links.ROUTES,
    *asking.ROUTES,
    *events.ROUTES,
    *assets.ROUTES,
)

SERVED = (
    *fleet.ROUTES,
    *instances.ROUTES,
    *actions.ROUTES,
    *operations.ROUTES,
    *plots.ROUTES,
    *rollouts.ROUTES,
    *alerts.ROUTES,
    *runbooks.PAGES,
    *listings.SERVED,
    *events.ROUTES,
    *assets.ROUTES,
)
"""Of the console that is served to several operators: its process reads what these pages show, and has no key."""

_STATUS: tuple[tuple[type[HermesError], HTTPStatus], ...] = (
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (RefusedError, HTTPStatus.CONFLICT),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""Of errors, the first class that fits; 500 for any other."""


def application(console: Console, gate: Gate) -> Starlette:
    """Build the application for those whom a gate admits."""
    app = Starlette(
        routes=SERVED if console.is_served else ROUTES,
        exception_handlers={HermesError: _explain, HTTPException: _explain_http},
    )
    app.state.console = console
    app.add_middleware(Front, gate=gate)
    return app


def status_of(error: HermesError) -> HTTPStatus:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


async def _explain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HermesError)  # noqa: S101 - it is registered for that class
    return console_of(request).pages.page(
        "error", status_of(error), message=error.message, hint=error.hint, field=error.field
    )


async def _explain_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    status = HTTPStatus(error.status_code)
    return console_of(request).pages.page("error", status, message=status.phrase, hint="", field="")
