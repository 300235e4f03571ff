"""Allowed routes, parameters and headers of the relay; everything else is refused. Pure.

Source: routes, parameters and headers of hermes-agent 0.19.0's API server, and what later ones add (steering a run,
replay of events; ``machines.capabilities.facts``), which an older agent answers with 404 or ignores. Its jobs are
relayed for the users' API alone. Its skills, toolsets, callbacks of messengers and mirrors of profiles are not relayed:
no message of a user needs them.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from hermesops.serving.exchange import RefusedRequestError


def unavailable(code: str, words: str, *, retry_after_s: int = 5) -> RefusedRequestError:
    """Build a temporary refusal (503) with a code of ours; the caller may repeat after ``retry_after_s`` seconds."""
    return RefusedRequestError(HTTPStatus.SERVICE_UNAVAILABLE, code, words, retry_after_s=retry_after_s)


QUICK_S, TURN_S, SILENCE_S = 15.0, 3600.0, 600.0
"""Seconds of a short request, of a whole turn of an agent, and of silence in a turn: it thinks, and runs tools."""

_TARGET = re.compile(
    r"/agents/(?P<agent>[a-z0-9-]{1,36})(?P<path>(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)+)(?:\?(?P<query>.*))?"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_PARAMETER = re.compile(r"(?P<name>limit|offset|source|include_children|include_disabled)=[A-Za-z0-9_-]{0,64}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")
_LONGEST_TARGET = 1024


@dataclass(frozen=True)
class Route:
    """A request that agents may get.

    Attributes:
        path: Its parts; ``*`` stands for any one name.
        total_s: Seconds from the question to the end of the answer.
        silence_s: Seconds without a byte of the answer.
        callers: Services that may use it; empty for all.
    """

    method: str
    path: tuple[str, ...]
    total_s: float = QUICK_S
    silence_s: float = QUICK_S
    has_query: bool = False
    callers: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """Name of the route in logs and counters, without the name of a session or run."""
        return f"{self.method} /{'/'.join(self.path)}"

    @property
    def has_body(self) -> bool:
        """Whether a body is passed on."""
        return self.method in {"POST", "PATCH"}

    def fits(self, method: str, parts: Sequence[str], caller: str) -> bool:
        """Whether a request of a service is for this route."""
        if (method, len(parts)) != (self.method, len(self.path)) or (self.callers and caller not in self.callers):
            return False
        return all(
            _NAME.fullmatch(part) if own == "*" else part == own for own, part in zip(self.path, parts, strict=True)
        )


API = "api"
"""Name of the users' API as a caller."""

CONNECTOR = "connector"
"""Name of the connector as a caller, which reads transcripts."""


def _quick(
    line: str,
    total_s: float = QUICK_S,
    silence_s: float = QUICK_S,
    *,
    has_query: bool = False,
    callers: frozenset[str] = frozenset(),
) -> Route:
    method, path = line.split(" /")
    return Route(method, tuple(path.split("/")), total_s, silence_s, has_query, callers)


_turn = partial(_quick, total_s=TURN_S, silence_s=SILENCE_S)
_of_api = partial(_quick, callers=frozenset({API}))
ROUTES = (
    _quick("GET /health"),
    _quick("GET /v1/health"),
    _quick("GET /health/detailed"),
    _quick("GET /v1/models"),
    _quick("GET /v1/capabilities"),
    _turn("POST /v1/chat/completions"),
    _turn("POST /v1/responses"),
    _quick("GET /v1/responses/*"),
    _quick("DELETE /v1/responses/*"),
    _quick("POST /v1/runs"),
    _quick("GET /v1/runs/*"),
    _turn("GET /v1/runs/*/events"),
    _quick("POST /v1/runs/*/approval"),
    _quick("POST /v1/runs/*/stop"),
    _quick("POST /v1/runs/*/steer"),
    _quick("GET /api/sessions", has_query=True),
    _quick("POST /api/sessions"),
    _quick("GET /api/sessions/*"),
    _quick("PATCH /api/sessions/*"),
    _quick("DELETE /api/sessions/*"),
    _quick("GET /api/sessions/*/messages"),
    _quick("POST /api/sessions/*/fork"),
    _turn("POST /api/sessions/*/chat"),
    _turn("POST /api/sessions/*/chat/stream"),
    _of_api("GET /api/jobs", has_query=True),
    _of_api("POST /api/jobs"),
    _of_api("DELETE /api/jobs/*"),
    _of_api("POST /api/jobs/*/pause"),
    _of_api("POST /api/jobs/*/resume"),
)

UNTIL = "x-relay-until"
"""Header of a request: seconds since 1970, by the clock of the relay's host. Whoever sent it gives it up then, and may
do something else about it. A process that hung must not deliver it afterwards."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_TO_AGENT = frozenset({"accept", "idempotency-key", "last-event-id", "x-hermes-session-id", "x-hermes-session-key"})
_FROM_AGENT = frozenset({"x-hermes-session-id", "x-hermes-completed", "x-hermes-partial", "idempotency-replayed"})
_TYPES = frozenset({"application/json", "text/event-stream", "text/plain"})


@dataclass(frozen=True)
class Wanted:
    """A request to an agent.

    Attributes:
        agent: User id, alias or instance id.
        target: Path and query as the agent gets them.
    """

    agent: str
    route: Route
    target: str


def wanted(method: str, target: str, caller: str = "") -> Wanted:
    """Parse a request's target; refuses targets that need decoding or normalising.

    Args:
        target: ``/agents/<agent>/<path of the agent's API>``, as it came.
        caller: Name of the service that asks.

    Raises:
        RefusedRequestError: It is malformed, or no allowed route.
    """
    match = _TARGET.fullmatch(target) if len(target) <= _LONGEST_TARGET else None
    if match is None:
        raise RefusedRequestError(
            HTTPStatus.BAD_REQUEST, "bad_path", "the path must be /agents/USER/ and a path of the agent's API"
        )
    parts = match["path"].removeprefix("/").split("/")
    route = next((route for route in ROUTES if route.fits(method, parts, caller)), None)
    if route is None:
        raise RefusedRequestError(HTTPStatus.NOT_FOUND, "not_carried", "the relay does not pass this route to agents")
    query = match["query"]
    if query is None:
        return Wanted(match["agent"], route, match["path"])
    if not route.has_query or not all(_PARAMETER.fullmatch(parameter) for parameter in query.split("&")):
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "bad_query", "the relay does not pass this query to agents")
    return Wanted(match["agent"], route, f"{match['path']}?{query}")


def headers_to_agent(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The headers that an agent gets: each once, and none about the caller or the connection.

    Args:
        headers: Names in lower case.

    Raises:
        RefusedRequestError: One of them is there twice, or is not printable.
    """
    passed: dict[str, str] = {}
    for name, value in headers:
        if name not in _TO_AGENT:
            continue
        if name in passed or not _VALUE.fullmatch(value):
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "bad_header", f"header {name} is repeated or malformed")
        passed[name] = value
    return passed


def until_in(headers: Sequence[tuple[str, str]]) -> float:
    """The moment after which a request must not reach its agent any more, in seconds since 1970.

    Args:
        headers: Names in lower case; without ``UNTIL``, the request never comes too late.

    Raises:
        RefusedRequestError: It is there twice, or malformed.
    """
    values = [value for name, value in headers if name == UNTIL]
    if not values:
        return math.inf
    if len(values) > 1 or not _TIMESTAMP.fullmatch(values[0]):
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "bad_header", f"header {UNTIL} is repeated or malformed")
    return float(values[0])


def headers_from_agent(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an agent's answer that the caller gets, with its content type, which browsers must not guess.

    Raises:
        RefusedRequestError: The content type is none of its API.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TYPES:
        raise RefusedRequestError(
            HTTPStatus.BAD_GATEWAY,
            "bad_answer",
            "the agent's answer has a content type that the relay does not pass on",
        )
    passed = {name: headers[name] for name in sorted(_FROM_AGENT) if _VALUE.fullmatch(headers.get(name, ""))}
    return {"content-type": kind, "x-content-type-options": "nosniff", **passed}
