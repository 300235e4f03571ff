"""Sessions of pages: a cookie that a browser holds, and the issuer's tokens that stay here.

Source: OAuth 2.0 for Browser-Based Applications, section 6.1 (backend for frontend); RFC 6265bis (``__Host-``).
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from weakref import WeakValueDictionary

from hermesops.access.sign_in.issuer_client import IssuedTokens, IssuerClient, SignIn
from hermesops.access.sign_in.signed_tokens import ExpiredTokenError, InvalidTokenError
from hermesops.api.sign_in.tokens import Tokens
from hermesops.errors import RefusedError
from hermesops.model.ids import UserId
from hermesops.store.user_rows.sessions import WebSession, WebSessions

COOKIE = "__Host-hermes"
SIGN_IN_COOKIE = "__Host-hermes-sign-in"
SIGN_IN_S = 600
"""Seconds that a person may take to sign in at the issuer."""

LONGEST_COOKIE = 128


class PageSessions:
    """Begins, renews and ends sessions of pages.

    Args:
        issuer: By which pages sign in.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        rows: WebSessions,
        tokens: Tokens,
        issuer: IssuerClient,
        redirect_uri: str,
        clock: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._tokens = tokens
        self._issuer = issuer
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._renewing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def begin(self, onward: str) -> tuple[str, str]:
        """Begin a sign-in: the issuer's address for the browser, and the cookie that the browser keeps meanwhile."""
        sign_in = SignIn.begun(onward)
        text = json.dumps({**asdict(sign_in), "until": self._clock() + SIGN_IN_S})
        return self._issuer.sign_in_url(sign_in, self._redirect_uri), self._rows.seal_sign_in(text)

    async def end_sign_in(self, cookie: str, state: str, code: str) -> tuple[str, str]:
        """End a sign-in: the session's cookie, and the page to show.

        Args:
            cookie: As ``begin`` gave it to this browser.

        Raises:
            InvalidTokenError: This browser began no such sign-in, or took too long.
            RefusedError: The issuer refuses the code.
            UnavailableError: The issuer does not answer.
        """
        sign_in = self._begun(cookie)
        if sign_in is None or sign_in.state != state:
            raise InvalidTokenError("this sign-in was not begun here, or took too long; sign in again")
        issued = await self._issuer.tokens_for_code(code, sign_in.verifier, self._redirect_uri)
        user = await self._tokens.user_of(issued.access)
        return await asyncio.to_thread(self._rows.add, user, _kept(issued)), sign_in.onward

    async def user_of(self, cookie: str) -> UserId:
        """The user of a session; its tokens are renewed where they have expired.

        Raises:
            InvalidTokenError: There is no such session (any more).
            UnavailableError: The issuer does not answer.
        """
        session = await self._session(cookie)
        try:
            return await self._user_in(session)
        except ExpiredTokenError:
            return await self._renewed(cookie, session)

    async def end(self, cookie: str) -> None:
        """End a session; one that is not there is ended already."""
        if len(cookie) <= LONGEST_COOKIE:
            await asyncio.to_thread(self._rows.end, cookie)

    async def _session(self, cookie: str) -> WebSession:
        session = await asyncio.to_thread(self._rows.find, cookie) if len(cookie) <= LONGEST_COOKIE else None
        if session is None:
            raise InvalidTokenError("this session has ended; sign in again")
        return session

    async def _user_in(self, session: WebSession) -> UserId:
        user = await self._tokens.user_of(session.tokens["access"])
        if user != session.user_id:
            raise InvalidTokenError("this session is another user's; sign in again")
        return user

    async def _renewed(self, cookie: str, before: WebSession) -> UserId:
        """Renew a session's tokens, once for requests that come at the same time."""
        lock = self._renewing.setdefault(before.id, asyncio.Lock())
        async with lock:
            session = await self._session(cookie)
            if session.tokens == before.tokens:
                session = await self._with_fresh_tokens(cookie, session)
            return await self._user_in(session)

    async def _with_fresh_tokens(self, cookie: str, session: WebSession) -> WebSession:
        tokens = IssuedTokens(session.tokens["access"], session.tokens.get("refresh", ""))
        fresh = None
        if tokens.refresh:
            with suppress(RefusedError):
                fresh = await self._issuer.refreshed(tokens)
        if fresh is None:
            await asyncio.to_thread(self._rows.end, cookie)
            raise InvalidTokenError("this session has ended; sign in again")
        await asyncio.to_thread(self._rows.renew, session, _kept(fresh))
        return WebSession(session.id, session.user_id, _kept(fresh), session.expires_at)

    def _begun(self, cookie: str) -> SignIn | None:
        try:
            content = json.loads(self._rows.unseal_sign_in(cookie))
        except (RefusedError, ValueError):
            return None
        if content["until"] < self._clock():
            return None
        return SignIn(content["state"], content["verifier"], content["onward"])


def _kept(tokens: IssuedTokens) -> Mapping[str, str]:
    """The tokens that a session needs; the ID token, which describes a person, is none of them."""
    return {"access": tokens.access, "refresh": tokens.refresh}
