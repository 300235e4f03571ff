"""Requests to an issuer of tokens: its keys, and tokens for codes and for refresh tokens.

Source: RFC 6749 (sections 4.1, 6), RFC 7636 (PKCE), RFC 7517; OpenID Connect Core 1.0, section 3.1.2.1 (``nonce``);
Amazon Cognito's "token endpoint".
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import httpx

from hermesops.base.network.http import client
from hermesops.errors import RefusedError, UnavailableError
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError
from hermesops.wire import strict_json

_TIME_S = 10.0
_LARGEST = 256 * 1024


@dataclass(frozen=True)
class IssuerAddresses:
    """Addresses of an issuer, and the client that asks it.

    Attributes:
        issuer: As tokens name it.
        authorize_url: For browsers.
        scope: Of the tokens, as ``openid email``.
    """

    issuer: str
    keys_url: str
    authorize_url: str
    token_url: str
    client_id: str
    scope: str = "openid"


@dataclass(frozen=True)
class IssuedTokens:
    """Tokens of an issuer.

    Attributes:
        refresh, id: Empty where the issuer gave none.
    """

    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    id: str = field(default="", repr=False)


@dataclass(frozen=True)
class SignIn:
    """A sign-in that a browser has begun.

    Attributes:
        verifier: The secret of PKCE, which the browser's address bar never sees.
        onward: Path of the page to show afterwards.
        nonce: Is in the ID token that ends the sign-in; empty where none is wanted.
    """

    state: str
    verifier: str = field(repr=False)
    onward: str
    nonce: str = ""

    @classmethod
    def begun(cls, onward: str, *, has_nonce: bool = False) -> "SignIn":
        """A sign-in that begins now, with a fresh state and verifier."""
        nonce = secrets.token_urlsafe(24) if has_nonce else ""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(48), onward, nonce)


class IssuerClient:
    """Signs people in at one OpenID Connect issuer, by authorization code with PKCE."""

    def __init__(self, addresses: IssuerAddresses) -> None:
        self._addresses = addresses

    def sign_in_url(self, sign_in: SignIn, redirect_uri: str, *, max_age_s: float | None = None) -> str:
        """The address to which a browser goes to sign in.

        Args:
            max_age_s: The person proves anew who they are, and the ID token says when; ``None`` where the issuer may
                know them already (OpenID Connect Core 1.0, section 3.1.2.1).
        """
        challenge = urlsafe_b64encode(sha256(sign_in.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._addresses.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._addresses.scope,
            "state": sign_in.state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        if sign_in.nonce:
            query["nonce"] = sign_in.nonce
        if max_age_s is not None:
            query |= {"prompt": "login", "max_age": f"{max_age_s:.0f}"}
        return f"{self._addresses.authorize_url}?{urlencode(query)}"

    async def keys(self) -> Mapping[str, Any]:
        """The issuer's keys, as a JSON Web Key Set.

        Raises:
            UnavailableError: It does not answer, or not with keys.
        """
        status, answer = await self._ask("GET", self._addresses.keys_url)
        if status != HTTPStatus.OK:
            raise UnavailableError("the issuer of tokens does not hand out its keys")
        return answer

    async def tokens_for_code(self, code: str, verifier: str, redirect_uri: str) -> IssuedTokens:
        """Exchange the code of a sign-in for tokens.

        Raises:
            RefusedError: The code is not valid (any more).
            UnavailableError: The issuer does not answer.
        """
        return await self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "code_verifier": verifier,
                "redirect_uri": redirect_uri,
                "client_id": self._addresses.client_id,
            }
        )

    async def refreshed(self, tokens: IssuedTokens) -> IssuedTokens:
        """Exchange a refresh token for other tokens; raises as ``tokens_for_code``."""
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh, "client_id": self._addresses.client_id}
        fresh = await self._tokens(form)
        return IssuedTokens(fresh.access, fresh.refresh or tokens.refresh, fresh.id)

    async def _tokens(self, form: Mapping[str, str]) -> IssuedTokens:
        status, answer = await self._ask("POST", self._addresses.token_url, form)
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise RefusedError("the issuer refuses this sign-in")
        access, refresh, id_ = (answer.get(f"{name}_token") for name in ("access", "refresh", "id"))
        if status != HTTPStatus.OK or not isinstance(access, str):
            raise UnavailableError("the issuer of tokens gives none")
        return IssuedTokens(access, refresh if isinstance(refresh, str) else "", id_ if isinstance(id_, str) else "")

    async def _ask(self, method: str, url: str, form: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        try:
            async with (
                client(timeout=httpx.Timeout(_TIME_S)) as asking,
                asking.stream(method, url, data=dict(form) if form else None, headers=_HEADERS) as response,
            ):
                body = await AnswerBody(response, deadline=Deadline(_TIME_S), largest=_LARGEST).whole()
                return response.status_code, strict_json.parse_object(body)
        except (httpx.HTTPError, UnreadableAnswerError, strict_json.MalformedJSONError) as error:
            raise UnavailableError(f"the issuer of tokens does not answer: {type(error).__name__}") from error


_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
