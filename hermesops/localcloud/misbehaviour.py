"""Wraps the API so that ordered faults strike whole calls: refused, answered wrongly, or never answered."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.localcloud.faults import FaultKind, Faults
from hermesops.localcloud.listener import hang_up
from hermesops.localcloud.problem import Problem

_ACCEPTED = 202


class Misbehaviour:
    """Carries out what ``Faults`` has waiting.

    Args:
        app: The API, mounted at its prefix.
        faults: What waits.
    """

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, rightly or wrongly."""
        method, path = scope["method"], scope["path"].removeprefix("/api/v1")
        about: dict[str, tuple[str, ...]] = {}
        scope["localcloud"] = about
        machine = _machine_in(path)
        if fault := self._faults.take(FaultKind.SERVER_ERROR, machine, method=method, path=path):
            await Problem(fault.status, "Internal server error").response()(scope, receive, send)
            return
        # A machine is known by three names, and only who serves the call knows them all: so ask when it answers.
        lost = wrong = False

        async def answer(message: Message) -> None:
            nonlocal lost, wrong
            if message["type"] == "http.response.start":
                concerned = about.get("machine", machine)
                lost = self._faults.take(FaultKind.LOST_ANSWER, concerned, method=method, path=path) is not None
                created = (method, path.rstrip("/"), message["status"]) == ("POST", "/machines", _ACCEPTED)
                wrong = created and self._faults.take(FaultKind.CREATED_BUT_5XX, concerned) is not None
            if not lost and not wrong:
                await send(message)

        await self._app(scope, receive, answer)
        if lost:
            await hang_up(scope)
        elif wrong:
            await Problem(500, "Internal server error").response()(scope, receive, send)


def _machine_in(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    return (parts[2],) if path.startswith("/machines/") else ()
