"""Made-up calls to the console: an OpenAPI document of its routes, and what holds for every response.

The console describes no API: schemathesis is given its routes, with the subjects, actions and filters that there are
beside any other text.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from schemathesis.schemas import BaseSchema
from starlette.routing import Route

from hermesops.console.actions.action import About
from hermesops.console.actions.table import ACTIONS
from hermesops.console.application import ROUTES, SERVED
from hermesops.console.front import CONTENT_SECURITY_POLICY
from hermesops.console.operators.gate import COOKIE
from hermesops.console.operators.links import LinksOfOperators
from hermesops.console.topics.fleet import FILTERS
from hermesops.console.topics.listings import LISTINGS
from hermesops.model.ids import instance_subject
from hermesops.model.operation import OperationKind
from hermesops.store.registry import Registry
from tests.support.fleets.filled_registry import beat, fill
from tests.support.pages.console import empty_container, foreign
from tests.support.pages.console import served_console as loopback_console
from tests.support.pages.halted_rollout import with_halted_rollout
from tests.support.pages.operators import CHANGE, HOST, served_console
from tests.support.real.stores.registries import registry_at
from tests.support.rollouts.rows import ROLLOUT
from tests.support.users.api import served

Case = schemathesis.Case[Any]

INSTANCES = 50
STREAM = "/console/events"
"""A stream has no end: it is asked apart."""

_UNREACHED = ("no worker has decided", "is not running", "no world", "does not answer", "cannot be reached")
"""Parts of explanations with which a change may be unavailable: nothing of the world is behind these consoles."""

_QUERY = (
    *FILTERS,
    "page",
    "instance",
    "ids",
    "of",
    "refused",
    "undecided",
    "action",
    "since",
    "who",
    "subject",
    "user",
)


@dataclass(frozen=True)
class Target:
    """A console on loopback.

    Attributes:
        headers: With which every call of its operator comes.
    """

    url: str
    headers: Mapping[str, str]
    routes: Sequence[Any]
    ids: Sequence[str]

    def schema(self, *, is_whole: bool) -> BaseSchema:
        """The routes with their parameters.

        Args:
            is_whole: Whether each limit of each parameter is tried as well, some hundred calls of a route.
        """
        schema = schemathesis.openapi.from_dict(document(self.routes, self.ids))
        schema.config.update(base_url=self.url)
        if not is_whole:
            schema.config.phases.update(phases=["fuzzing"])
        return schema


def check(case: Case, target: Target) -> None:
    """Make one call: the response is a page or a refusal, in which every text is data."""
    response = case.call(headers=dict(target.headers), timeout=60, allow_redirects=False)
    assert response.status_code < 500 or _is_unreached(response), (response.status_code, response.text)
    if response.status_code != httpx.codes.BAD_REQUEST or response.headers.get("server") is None:
        assert response.headers["content-security-policy"] == [CONTENT_SECURITY_POLICY]
    if "text/html" in response.headers.get("content-type", [""])[0]:
        assert foreign(response.text) == []


def _is_unreached(response: Any) -> bool:  # noqa: ANN401 - schemathesis's
    return response.status_code == httpx.codes.SERVICE_UNAVAILABLE and any(w in response.text for w in _UNREACHED)


def document(routes: Sequence[Any], ids: Sequence[str]) -> dict[str, Any]:
    """An OpenAPI document of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        assert isinstance(route, Route)
        if route.path == STREAM:
            continue
        for method in sorted((route.methods or set()) - {"HEAD"}):
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method, ids)
    return {"openapi": "3.1.0", "info": {"title": "console", "version": "1"}, "paths": paths}


def _operation(route: Route, method: str, ids: Sequence[str]) -> dict[str, Any]:
    known = {
        "id": ids,
        "action": [action.name for action in ACTIONS],
        "about": list(About),
        "name": [*LISTINGS, "cell1"],
    }
    fields = sorted({field.name for action in ACTIONS for field in action.fields})
    parameters = [_parameter("path", name, known[name]) for name in route.param_convertors]
    query = _QUERY if "{action}" not in route.path else (*fields, "ids")
    parameters += [_parameter("query", name, _VALUES.get(name, ("on",))) for name in query]
    operation: dict[str, Any] = {"parameters": parameters, "responses": {"default": {"description": "any"}}}
    if method == "POST":
        form = {name: _text(_VALUES.get(name, ("on",))) for name in (*fields, "reason", "typed", "name", "page")}
        schema = {"type": "object", "properties": form}
        operation["requestBody"] = {"content": {"application/x-www-form-urlencoded": {"schema": schema}}}
    return operation


_VALUES: Mapping[str, Sequence[str]] = {
    "where": ("cell=cell1", "health=down", "plan=heavy,status=running", "user=user7", "colour=red", "="),
    "health": ("down", "unknown"),
    "page": ("1", "2", "999999"),
    "since": ("1h", "2026-01-01"),
    "plan": ("light", "heavy"),
    "reason": ("a test",),
    "typed": ("user0", "r1"),
    "until": ("12h",),
    "release": ("0.19.0",),
}
"""Values that parameters may have, beside any text."""


def _parameter(place: str, name: str, values: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": _text(values)}


def _text(values: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "enum": list(dict.fromkeys(values))}, {"type": "string", "maxLength": 600}]}


def _filled(registry: Registry) -> list[str]:
    """Fill a registry, and return ids of what is in it."""
    fill(registry, INSTANCES)
    beat(registry, silent_every=10)
    with_halted_rollout(registry, "it is so")
    instance = registry.instances.list()[0]
    operation = registry.operations.open(
        OperationKind.RESTART,
        instance_subject(instance.id),
        intent={"user": "user0", "reason": "x"},
        instance_id=instance.id,
    )
    freeze = registry.freezes.set(begins_at=None, ends_at=None, reason="it is so")
    return [instance.id, operation.id, ROLLOUT.id, freeze.id, "gateway-down", "GatewayDown", "cell1", "pools"]


@asynccontextmanager
async def _on_this_computer(folder: Path) -> AsyncIterator[Target]:
    container = empty_container(folder)
    ids = _filled(container.registry)
    async with loopback_console(container) as url:
        origin = "/".join(url.split("/")[:3])
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(url)
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        yield Target(origin, {"cookie": cookie, "origin": origin, "hx-request": "true"}, ROUTES, ids)


@asynccontextmanager
async def _for_operators(folder: Path) -> AsyncIterator[Target]:
    url = f"sqlite:///{folder}/registry.db"
    ids = _filled(registry_at(url))
    async with served_console(url, folder / "home") as console:
        state: Any = console.app.state  # type: ignore[attr-defined]  # Starlette's
        running = replace(state.console.running, within_s=0.0)  # nobody decides
        state.console = replace(state.console, running=running, links=LinksOfOperators(running))
        adele = await console.signed_in("adele")
        headers = {**CHANGE, "host": HOST, "user-agent": "browser", "cookie": f"{COOKIE}={adele.cookies[COOKIE]}"}
        async with served(console.app) as origin:
            yield Target(origin, headers, SERVED, ids)


CONSOLES: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Target]]] = {
    "on this computer": _on_this_computer,
    "for operators": _for_operators,
}


@contextlib.contextmanager
def target_in(folder: Path, console: str) -> Iterator[Target]:
    """One of ``CONSOLES``, in a thread of its own."""
    ready, done = threading.Event(), threading.Event()
    targets: list[Target] = []

    async def serve() -> None:
        async with CONSOLES[console](folder) as target:
            targets.append(target)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60), "the console did not start"
    try:
        yield targets[0]
    finally:
        done.set()
        thread.join(60)
