"""Gates of the console: one admits the browser of this computer, the other one operators with their roles."""

import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, unquote, urlencode

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.console.operators.roles import change_of, role_of
from hermesops.console.operators.sessions import (
    LIFE_S,
    LONGEST_COOKIE,
    SIGN_IN_S,
    NoSessionError,
    OperatorSession,
    Sessions,
)
from hermesops.errors import RefusedError
from hermesops.model.access.console_operator import RECENT_S, ConsoleOperator, Role
from hermesops.serving.exchange import Head, RefusedRequestError

if TYPE_CHECKING:
    from hermesops.observability.browser import BrowserGate

COOKIE = "__Host-hermes-console"
SIGN_IN_COOKIE = "__Host-hermes-console-sign-in"

PAGES = "/console/"
SIGN_IN = f"{PAGES}sign-in"
CALLBACK = f"{SIGN_IN}/callback"
SIGN_OUT = f"{PAGES}sign-out"

_ANEW = "anew"
"""Field of the sign-in's address: the issuer asks for the person's proof even if it knows the browser."""

_METHODS = frozenset({"GET", "HEAD", "POST"})
_CLIMBS = re.compile(r"\.\.|%2e|%2f|%5c|\\|//", re.IGNORECASE)
_ONWARD = re.compile(r"/console/[A-Za-z0-9/_-]{0,200}")
_MOST_FIELDS = 10
_LONGEST = 2048
"""Characters of a code or state."""


@dataclass(frozen=True)
class Admission:
    """An admitted request.

    Attributes:
        operator: ``None`` for the operator who started the console on this computer.
        proof: The operator's ID token; empty as above.
        session: Id of the session; empty as above.
    """

    role: Role
    operator: ConsoleOperator | None = None
    proof: str = field(default="", repr=False)
    session: str = ""


_current: ContextVar[Admission | None] = ContextVar("admission", default=None)


def admitted(admission: Admission) -> None:
    """Name the admission of the request that this task serves."""
    _current.set(admission)


def current() -> Admission:
    """The admission of the request that this task serves; one without a role outside a request."""
    admission = _current.get()
    if admission is None:
        raise RuntimeError("there is no request")
    return admission


def operator_shown() -> ConsoleOperator | None:
    """The operator whom the present page names; ``None`` on this computer's own console."""
    admission = _current.get()
    return admission.operator if admission else None


class Gate(Protocol):
    """Admits requests, or answers them."""

    async def admit(self, head: Head) -> Admission | Response:
        """The admission of a request, or the answer to it, as a redirection to the sign-in.

        Raises:
            RefusedRequestError: It is refused.
            UnavailableError: That cannot be decided now.
        """

    def is_open(self, admission: Admission) -> bool:
        """Whether the session of a stream has not ended."""


@dataclass(frozen=True)
class LoopbackGate:
    """Admits the one browser of this computer, with all rights of the operator who started the console."""

    browser: "BrowserGate"

    @property
    def url(self) -> str:
        """The address that gives the cookie, once."""
        return self.browser.url

    async def admit(self, head: Head) -> Admission | Response:
        """Admit what the browser's cookie admits; see ``BrowserGate.admit``."""
        cookie = self.browser.admit(head)
        if cookie:
            return RedirectResponse(self.browser.prefix, HTTPStatus.SEE_OTHER, {"set-cookie": cookie})
        return Admission(Role.ADMIN)

    def is_open(self, admission: Admission) -> bool:
        """A browser's session lasts as long as the console."""
        del admission
        return True


@dataclass(frozen=True)
class OperatorGate:
    """Admits operators with a session, from the console's own pages.

    Attributes:
        origin: Of the pages, ``https://HOST``; no other name leads here.
        clock: Seconds since 1970.
    """

    origin: str
    sessions: Sessions
    clock: Callable[[], float] = time.time

    async def admit(self, head: Head) -> Admission | Response:
        """Admit a request with a session; lead browsers without one to the sign-in."""
        headers, (path, _, query) = dict(head.headers), head.target.partition("?")
        self._refuse_foreign(head, headers)
        if not path.startswith(PAGES) or _CLIMBS.search(path):
            raise RefusedRequestError(HTTPStatus.NOT_FOUND, "not_there", f"no such page; the console is at {PAGES}")
        cookies, browser = cookies_in(headers.get("cookie", "")), headers.get("user-agent", "")
        match head.method, path:
            case ("GET", path) if path == SIGN_IN:
                fields = _fields_in(query)
                return self._begin(fields.get("onward", PAGES), is_anew=_ANEW in fields)
            case ("GET", path) if path == CALLBACK:
                return await self._end_sign_in(_fields_in(query), cookies, browser)
            case ("POST", path) if path == SIGN_OUT:
                self.sessions.end(cookies.get(COOKIE, ""))
                return _with_cookie(Response(headers={"hx-redirect": SIGN_IN}), COOKIE, "", 0)
        try:
            session = await self.sessions.find(cookies.get(COOKIE, ""), browser, is_act=_is_act(head.method, headers))
        except NoSessionError:
            return _to_sign_in(head, headers, path)
        if head.method == "POST" and self._must_sign_in_anew(path, session.operator):
            return _to_sign_in_anew(path)
        return _admission(session)

    def is_open(self, admission: Admission) -> bool:
        """Whether the session has not ended, and the issuer has vouched for its operator in the last minutes."""
        return self.sessions.is_open(admission.session)

    def _must_sign_in_anew(self, path: str, operator: ConsoleOperator) -> bool:
        """Whether a change needs a sign-in of the last minutes, and its operator has the role for it."""
        action = change_of(unquote(path))
        needs_it = action is not None and action.destroys and operator.role >= role_of(action)
        return needs_it and not operator.has_signed_in_lately(self.clock())

    def _begin(self, onward: str, *, is_anew: bool) -> Response:
        url, cookie = self.sessions.begin(onward if _ONWARD.fullmatch(onward) else PAGES, is_anew=is_anew)
        return _with_cookie(RedirectResponse(url, HTTPStatus.SEE_OTHER), SIGN_IN_COOKIE, cookie, int(SIGN_IN_S))

    async def _end_sign_in(self, query: Mapping[str, str], cookies: Mapping[str, str], browser: str) -> Response:
        cookie = cookies.get(SIGN_IN_COOKIE, "")
        state, code = query.get("state", ""), query.get("code", "")
        if max(map(len, (state, code))) > _LONGEST or len(cookie) > LONGEST_COOKIE:
            raise RefusedRequestError(
                HTTPStatus.BAD_REQUEST, "too_long", "the sign-in answer is too long; sign in again"
            )
        try:
            session, onward = await self.sessions.end_sign_in(cookie, state, code, browser)
        except (InvalidTokenError, RefusedError) as error:
            words = error.message if isinstance(error, RefusedError) else str(error)
            refusal = PlainTextResponse(f"{words}\n", HTTPStatus.FORBIDDEN)
            return _with_cookie(refusal, SIGN_IN_COOKIE, "", 0)
        self.sessions.end(cookies.get(COOKIE, ""))
        response = _with_cookie(RedirectResponse(onward, HTTPStatus.SEE_OTHER), COOKIE, session, int(LIFE_S))
        return _with_cookie(response, SIGN_IN_COOKIE, "", 0)

    def _refuse_foreign(self, head: Head, headers: Mapping[str, str]) -> None:
        """Refuse requests to another name, and those that another website made the browser send."""
        if headers.get("host") != self.origin.partition("://")[2]:
            raise RefusedRequestError(HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", "this host name is not served here")
        if head.method not in _METHODS:
            raise RefusedRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "method", "GET, HEAD and POST are served")
        is_foreign = headers.get("origin", self.origin if head.method != "POST" else "") != self.origin
        # A link of another website may lead here; nothing else of another website may.
        site, is_visit = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode") == "navigate"
        if is_foreign or (site not in {"none", "same-origin"} and (head.method == "POST" or not is_visit)):
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "foreign", "requests from other websites are refused")


def cookies_in(header: str) -> Mapping[str, str]:
    """Cookies of a request, by name; the first of a name counts."""
    pairs = (part.strip().partition("=") for part in reversed(header.split(";")))
    return {name: value for name, _, value in pairs if name}


def _fields_in(query: str) -> Mapping[str, str]:
    """The first value of each field of an address.

    Raises:
        RefusedRequestError: There are too many.
    """
    try:
        return {name: values[0] for name, values in parse_qs(query, max_num_fields=_MOST_FIELDS).items()}
    except ValueError as error:
        raise RefusedRequestError(
            HTTPStatus.BAD_REQUEST, "too_many", "the sign-in address has too many fields; sign in again"
        ) from error


def _is_act(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a person acts: opens a page or changes something. A page that keeps itself fresh does neither."""
    return method == "POST" or headers.get("sec-fetch-mode") == "navigate"


def _to_sign_in(head: Head, headers: Mapping[str, str], path: str) -> Response:
    """Lead a browser to the sign-in; scripts, streams and files are refused."""
    sign_in = f"{SIGN_IN}?{urlencode({'onward': path})}"
    if head.method == "GET" and headers.get("sec-fetch-mode", "navigate") == "navigate":
        return RedirectResponse(sign_in, HTTPStatus.SEE_OTHER)
    return PlainTextResponse("signed out; sign in again\n", HTTPStatus.UNAUTHORIZED, {"hx-redirect": SIGN_IN})


def _to_sign_in_anew(path: str) -> Response:
    """Lead a browser to the sign-in, and back to the preview of the change that it did not make."""
    sign_in = f"{SIGN_IN}?{urlencode({_ANEW: 'on', 'onward': path})}"
    words = f"this change needs a sign-in of the last {RECENT_S / 60:.0f} minutes\n"
    return PlainTextResponse(words, HTTPStatus.UNAUTHORIZED, {"hx-redirect": sign_in})


def _with_cookie(response: Response, name: str, value: str, life_s: int) -> Response:
    # Lax: the issuer's page leads back here, and a request that another site begins carries no stricter cookie.
    response.set_cookie(name, value, max_age=life_s, path="/", secure=True, httponly=True, samesite="lax")
    return response


def _admission(session: OperatorSession) -> Admission:
    return Admission(session.operator.role, session.operator, session.proof, session.id)
