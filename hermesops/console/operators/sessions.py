"""Sessions of operators: a cookie that a browser holds, and tokens of the issuer that stay in this process's memory.

No file and no row has any: a process that starts again knows nobody, and its operators sign in anew.

Source: OAuth 2.0 for Browser-Based Applications, section 6.1 (backend for frontend); RFC 6265bis (``__Host-``).
"""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hmac import compare_digest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.access.sign_in.issuer_client import IssuedTokens, IssuerClient, SignIn
from hermesops.access.sign_in.operator_tokens import OperatorTokens
from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.errors import RefusedError
from hermesops.model.access.console_operator import RECENT_S, ConsoleOperator

LIFE_S = 3600.0
"""Seconds from a sign-in to the next one."""

IDLE_S = 900.0
"""Seconds from an operator's last act to the end of the session; a page that keeps itself fresh is no act."""

ASKED_S = 300.0
"""Seconds for which the issuer's word about an operator's groups counts."""

SIGN_IN_S = 600.0
"""Seconds that a person may take to sign in at the issuer."""

LONGEST_COOKIE = 4096

_MOST = 200
"""Sessions; a further one ends the oldest."""

_MOST_EACH = 5
"""Sessions of an operator."""

_SIGN_IN = "console/sign-in"


class NoSessionError(Exception):
    """There is no such session (any more)."""


@dataclass(frozen=True)
class OperatorSession:
    """A session of an operator.

    Attributes:
        id: Digest of the cookie.
        browser: Digest of the browser that signed in.
        began_at, used_at, asked_at: Of a clock that never goes back: the sign-in, the operator's last act, and the
            issuer's last word.
    """

    id: str
    operator: ConsoleOperator
    tokens: IssuedTokens = field(repr=False)
    browser: str
    began_at: float
    used_at: float
    asked_at: float

    @property
    def proof(self) -> str:
        """The ID token by which workers know the operator."""
        return self.tokens.id

    def is_over(self, now: float) -> bool:
        """Whether it has lasted too long, or nobody acts in it any more."""
        return now - self.began_at >= LIFE_S or now - self.used_at >= IDLE_S

    def is_current(self, now: float) -> bool:
        """Whether the issuer's word about its operator counts."""
        return now - self.asked_at < ASKED_S


class Sessions:
    """Begins, renews and ends operators' sessions.

    Args:
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        issuer: IssuerClient,
        tokens: OperatorTokens,
        redirect_uri: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._tokens = tokens
        self._redirect_uri = redirect_uri
        self._monotonic = monotonic
        self._sessions: dict[str, OperatorSession] = {}
        self._renewing: dict[str, asyncio.Lock] = {}
        ring = Ring.fresh()
        self._sealer = KeyRing(ring.current, ring.keys)

    def begin(self, onward: str, *, is_anew: bool = False) -> tuple[str, str]:
        """Begin a sign-in: the issuer's address for the browser, and the cookie that the browser keeps meanwhile.

        Args:
            is_anew: Whether the issuer asks for the person's proof even if it knows the browser.
        """
        sign_in = SignIn.begun(onward, has_nonce=True)
        text = json.dumps({**asdict(sign_in), "until": self._monotonic() + SIGN_IN_S})
        url = self._issuer.sign_in_url(sign_in, self._redirect_uri, max_age_s=RECENT_S if is_anew else None)
        return url, self._sealer.seal(text, place=_SIGN_IN)

    async def end_sign_in(self, cookie: str, state: str, code: str, browser: str) -> tuple[str, str]:
        """End a sign-in: the session's cookie, and the page to show.

        Args:
            cookie: As ``begin`` gave it to this browser.

        Raises:
            InvalidTokenError: This browser began no such sign-in, or took too long, or the person may not sign in.
            RefusedError: The issuer refuses the code.
            UnavailableError: The issuer does not answer.
        """
        sign_in = self._begun(cookie)
        if sign_in is None or not compare_digest(sign_in.state.encode(), state.encode()):
            raise InvalidTokenError(
                "this sign-in was not started in this browser, or took longer than 10 minutes; sign in again"
            )
        issued = await self._issuer.tokens_for_code(code, sign_in.verifier, self._redirect_uri)
        operator = await self._tokens.operator_of(issued.id, nonce=sign_in.nonce)
        return self._add(operator, issued, browser), sign_in.onward

    async def find(self, cookie: str, browser: str, *, is_act: bool) -> OperatorSession:
        """The session of a cookie; the issuer is asked about its operator again where its word is old.

        Args:
            browser: Another one ends the session: its cookie was stolen.
            is_act: Whether the operator acts, and not a page by itself.

        Raises:
            NoSessionError: There is none (any more).
            UnavailableError: The issuer does not answer; the session stays, and nobody gets in by it meanwhile.
        """
        id_ = digest(cookie) if 0 < len(cookie) <= LONGEST_COOKIE else ""
        session = self._living(id_)
        if not compare_digest(session.browser, digest(browser)):
            self.end(cookie)
            raise NoSessionError
        if is_act:
            session = self._keep(replace(session, used_at=self._monotonic()))
        if session.is_current(self._monotonic()):
            return session
        async with self._renewing.setdefault(id_, asyncio.Lock()):
            session = self._living(id_)  # another request may have renewed or ended it
            return session if session.is_current(self._monotonic()) else await self._renewed(session)

    def is_open(self, id_: str) -> bool:
        """Whether a session has not ended, and the issuer's word about its operator still counts."""
        session, now = self._sessions.get(id_), self._monotonic()
        return session is not None and not session.is_over(now) and session.is_current(now)

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one."""
        self._drop(digest(cookie))

    def _living(self, id_: str) -> OperatorSession:
        session = self._sessions.get(id_)
        if session is None or session.is_over(self._monotonic()):
            self._drop(id_)
            raise NoSessionError
        return session

    async def _renewed(self, session: OperatorSession) -> OperatorSession:
        """Ask the issuer again; who is refused there, or has no role any more, has no session."""
        if not session.tokens.refresh:
            self._drop(session.id)
            raise NoSessionError
        try:
            fresh = await self._issuer.refreshed(session.tokens)
            self._keep_refresh(session.id, fresh)
            operator = await self._tokens.operator_of(fresh.id)
        except (InvalidTokenError, RefusedError) as error:
            self._drop(session.id)
            raise NoSessionError from error
        if operator.subject != session.operator.subject or session.id not in self._sessions:
            self._drop(session.id)
            raise NoSessionError
        # Acts of other requests meanwhile count.
        used_at = self._sessions[session.id].used_at
        now = self._monotonic()
        return self._keep(replace(session, operator=operator, tokens=fresh, used_at=used_at, asked_at=now))

    def _keep_refresh(self, id_: str, fresh: IssuedTokens) -> None:
        """Keep a refresh token that may have taken the last one's place, though its ID token cannot be judged yet."""
        session = self._sessions.get(id_)
        if session is not None:
            self._keep(replace(session, tokens=replace(session.tokens, refresh=fresh.refresh)))

    def _add(self, operator: ConsoleOperator, issued: IssuedTokens, browser: str) -> str:
        cookie, now = secrets.token_urlsafe(32), self._monotonic()
        for id_ in [id_ for id_, session in self._sessions.items() if session.is_over(now)]:
            self._drop(id_)
        own = [session.id for session in self._sessions.values() if session.operator.subject == operator.subject]
        for id_ in (*_beyond(own, _MOST_EACH - 1), *_beyond(list(self._sessions), _MOST - 1)):
            self._drop(id_)
        self._keep(OperatorSession(digest(cookie), operator, issued, digest(browser), now, now, now))
        return cookie

    def _keep(self, session: OperatorSession) -> OperatorSession:
        self._sessions[session.id] = session
        return session

    def _drop(self, id_: str) -> None:
        self._sessions.pop(id_, None)
        self._renewing.pop(id_, None)

    def _begun(self, cookie: str) -> SignIn | None:
        try:
            content = json.loads(self._sealer.unseal(cookie, place=_SIGN_IN))
        except (RefusedError, ValueError):
            return None
        if content.pop("until") < self._monotonic():
            return None
        return SignIn(**content)


def _beyond(ids: Sequence[str], most: int) -> Sequence[str]:
    """The oldest of these that are too many."""
    return ids[: max(0, len(ids) - most)]


def digest(text: str) -> str:
    """The name of a cookie's session, or of a browser. Pure."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
