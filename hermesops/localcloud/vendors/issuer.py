"""An issuer of tokens for the local world's users: authorization code with PKCE, RS256, keys that no file has.

Whoever reaches this computer's loopback can sign in as any user of the world: they are made up, as the world is. Its
tokens have the claims of Amazon Cognito's access tokens. A second client is the console's: its operators are made up,
too, and get an ID token with their groups.

Source: RFC 6749, RFC 7636, RFC 7517; OpenID Connect Core 1.0, section 2; Amazon Cognito's developer guide,
"Understanding the access token".
"""

import html
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hermesops.model.ids import is_alias, user_id_from_alias

PREFIX = "/issuer"
CLIENT = "hermes-web"
CONSOLE_CLIENT = "hermes-console"
TOKEN_S = 3600
ID_TOKEN_S = 300
CODE_S = 60.0
_KEPT = 1_000
"""Codes and refresh tokens that are remembered; older ones are forgotten."""

_HOSTS = frozenset({"localhost", "127.0.0.1"})
_LONGEST = 2048


@dataclass(frozen=True)
class Person:
    """A user or operator of the world, who may sign in without a password.

    Attributes:
        groups: Of an operator.
    """

    id: str
    name: str
    groups: tuple[str, ...] = ()


OPERATORS = tuple(
    Person(user_id_from_alias(f"operator-{name}"), f"{name}@local.test", (group,))
    for name, group in (("vera", "viewers"), ("otto", "operators"), ("adele", "admins"))
)
"""The operators of a local world, one of each role."""


@dataclass(frozen=True)
class _Code:
    client: str
    user: Person
    nonce: str
    challenge: str = field(repr=False)
    redirect_uri: str
    until: float


class LocalIssuer:
    """The issuer of one world.

    Args:
        url: Its own, as tokens name it.
        people: The world's users.
        clock: Seconds since 1970.
        pages: Origin of the pages of the world's platform, beside those on loopback; empty where it has none.
        console: Origin of its served console, as above.
    """

    def __init__(
        self,
        url: str,
        people: Callable[[], Sequence[Person]],
        clock: Callable[[], float] = time.time,
        *,
        pages: str = "",
        console: str = "",
        operators: Callable[[], Sequence[Person]] = lambda: OPERATORS,
    ) -> None:
        self.url = url
        self._pages = pages
        self._console = console
        self._of_client = {CLIENT: people, CONSOLE_CLIENT: operators}
        self._clock = clock
        self._codes: dict[str, _Code] = {}
        self._refreshes: dict[str, tuple[str, Person]] = {}
        self._signed_in: dict[str, int] = {}

    @property
    def _origins(self) -> frozenset[str]:
        """Origins of pages beside those on loopback."""
        return frozenset({self._pages, self._console} - {""})

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [
            Route("/authorize", self._ask, methods=["GET"]),
            Route("/authorize", self._choose, methods=["POST"]),
            Route("/token", self._token, methods=["POST"]),
            Route("/keys", self._keys, methods=["GET"]),
        ]

    def access_token(self, user: Person, **changes: object) -> str:
        """An access token of a user; ``changes`` are claims to have otherwise, for tests."""
        now = int(self._clock())
        claims: dict[str, object] = {
            "iss": self.url,
            "sub": user.id,
            "username": user.name,
            "client_id": CLIENT,
            "token_use": "access",
            "scope": "openid",
            "iat": now,
            "exp": now + TOKEN_S,
            "jti": secrets.token_hex(16),
        }
        return jwt.encode({**claims, **changes}, self._key, "RS256", {"kid": self._key_id})

    def id_token(self, operator: Person, nonce: str = "", **changes: object) -> str:
        """An ID token of an operator; ``changes`` are claims to have otherwise, for tests."""
        now = int(self._clock())
        claims: dict[str, object] = {
            "iss": self.url,
            "sub": operator.id,
            "aud": CONSOLE_CLIENT,
            "token_use": "id",
            "email": operator.name,
            "email_verified": True,
            "groups": list(operator.groups),
            "iat": now,
            "auth_time": self._signed_in.get(operator.id, now),
            "exp": now + ID_TOKEN_S,
        }
        claims |= {"nonce": nonce} if nonce else {}
        return jwt.encode({**claims, **changes}, self._key, "RS256", {"kid": self._key_id})

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(65537, 2048)

    @cached_property
    def _key_id(self) -> str:
        return secrets.token_hex(8)

    async def _keys(self, _request: Request) -> Response:
        key = await run_in_threadpool(lambda: self._key)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        return JSONResponse({"keys": [{**public, "kid": self._key_id, "use": "sig", "alg": "RS256"}]})

    async def _ask(self, request: Request) -> Response:
        query = dict(request.query_params)
        if refusal := _refusal_of(query, self._origins):
            return refusal
        people = await run_in_threadpool(self._of_client[query["client_id"]])
        return HTMLResponse(_page(people, query), headers=_headers(query["redirect_uri"]))

    async def _choose(self, request: Request) -> Response:
        form = _fields(await request.form(max_files=0, max_fields=20))
        if refusal := _refusal_of(form, self._origins):
            return refusal
        client = form["client_id"]
        people = {user.id: user for user in await run_in_threadpool(self._of_client[client])}
        user = people.get(form.get("user", "")) or (_newcomer(form.get("name", "")) if client == CLIENT else None)
        if user is None:
            return _bad("there is no such user")
        _remember(self._signed_in, user.id, int(self._clock()))
        code = secrets.token_urlsafe(24)
        until = self._clock() + CODE_S
        nonce, challenge = form.get("nonce", ""), form["code_challenge"]
        _remember(self._codes, code, _Code(client, user, nonce, challenge, form["redirect_uri"], until))
        query = urlencode({"code": code, "state": form["state"]})
        return RedirectResponse(f"{form['redirect_uri']}?{query}", HTTPStatus.SEE_OTHER)

    async def _token(self, request: Request) -> Response:
        form = _fields(await request.form(max_files=0, max_fields=20))
        client = form.get("client_id", "")
        if client not in self._of_client:
            return _error("invalid_client")
        nonce = ""
        match form.get("grant_type"):
            case "authorization_code":
                code = self._of_code(form)
                user, nonce = (code.user, code.nonce) if code and code.client == client else (None, "")
            case "refresh_token":
                user = await run_in_threadpool(self._of_refresh, client, form.get("refresh_token", ""))
            case _:
                return _error("unsupported_grant_type")
        if user is None:
            return _error("invalid_grant")
        refresh = secrets.token_urlsafe(32)
        _remember(self._refreshes, refresh, (client, user))
        access = await run_in_threadpool(self.access_token, user, client_id=client)
        answer = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": TOKEN_S}
        if client == CONSOLE_CLIENT:
            answer["id_token"] = await run_in_threadpool(self.id_token, user, nonce)
        return JSONResponse(answer, headers={"cache-control": "no-store"})

    def _of_refresh(self, client: str, token: str) -> Person | None:
        """The person of a refresh token, with the present groups; an operator who was removed has none."""
        of_client, person = self._refreshes.pop(token, ("", None))
        if of_client != client or person is None:
            return None
        if client == CLIENT:
            return person
        return next((each for each in self._of_client[client]() if each.id == person.id), None)

    def _of_code(self, form: Mapping[str, str]) -> _Code | None:
        code = self._codes.pop(form.get("code", ""), None)
        if code is None or code.until < self._clock() or code.redirect_uri != form.get("redirect_uri"):
            return None
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        is_same = secrets.compare_digest(urlsafe_b64encode(digest).decode().rstrip("="), code.challenge)
        return code if is_same else None


def _newcomer(name: str) -> Person | None:
    """A user who has no agent yet, under the same id each time; ``None`` for no name of a user."""
    return Person(user_id_from_alias(name), name) if is_alias(name) else None


def _refusal_of(query: Mapping[str, str], origins: frozenset[str]) -> Response | None:
    """Why a sign-in cannot begin; ``None`` when it can. Browsers are sent back to loopback and the platform alone."""
    if any(len(value) > _LONGEST for value in query.values()):
        return _bad("a parameter is too long")
    if query.get("client_id") not in {CLIENT, CONSOLE_CLIENT} or query.get("response_type") != "code":
        return _bad("this is no sign-in of the local world's pages")
    if query.get("code_challenge_method") != "S256" or not query.get("code_challenge") or not query.get("state"):
        return _bad("the sign-in lacks its challenge, or its state")
    redirect = urlsplit(query.get("redirect_uri", ""))
    is_here = redirect.scheme == "http" and redirect.hostname in _HOSTS
    # Browsers find names below localhost on this computer (RFC 6761, section 6.3), as that of a platform's console.
    is_named_here = redirect.scheme == "https" and (redirect.hostname or "").endswith(".localhost")
    is_of_platform = is_named_here or f"{redirect.scheme}://{redirect.netloc}" in origins
    if not (is_here or is_of_platform) or redirect.query or redirect.fragment:
        return _bad("only pages of this computer may sign in here")
    return None


def _page(people: Sequence[Person], query: Mapping[str, str]) -> str:
    names = ("client_id", "response_type", "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method")
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(query[name])}">' for name in names if name in query
    )
    buttons = "".join(
        f'<p><button name="user" value="{html.escape(user.id)}">Continue as {html.escape(user.name)}</button></p>'
        for user in people
    )
    new = (
        "<p><label>Or as a new user, without an agent: "
        '<input name="name" maxlength="31" pattern="[a-z][a-z0-9-]*"></label> <button>Continue</button></p>'
    )
    new_form = f'<form method="post" action="authorize">{hidden}{new}</form>' if query["client_id"] == CLIENT else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main>'
        "<h1>Sign in to the local world</h1>"
        f'<form method="post" action="authorize">{hidden}{buttons}</form>'
        f"{new_form}</main></body></html>"
    )


def _headers(redirect_uri: str) -> dict[str, str]:
    redirect = urlsplit(redirect_uri)
    onward = f"{redirect.scheme}://{redirect.netloc}"
    policy = f"default-src 'none'; form-action 'self' {onward}; frame-ancestors 'none'; base-uri 'none'"
    return {"content-security-policy": policy, "cache-control": "no-store", "referrer-policy": "no-referrer"}


def _fields(form: FormData) -> dict[str, str]:
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _bad(words: str) -> Response:
    return Response(words, HTTPStatus.BAD_REQUEST, media_type="text/plain")


def _error(code: str) -> Response:
    return JSONResponse({"error": code}, HTTPStatus.BAD_REQUEST)


def _remember(kept: dict[str, Any], key: str, value: object) -> None:
    kept[key] = value
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
