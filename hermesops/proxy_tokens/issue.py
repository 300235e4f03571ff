"""Tokens for the vendor's proxy: one per machine and purpose, of at most six hours, renewed before they expire.

It must not know what they are used for; callers say in ``refused`` what an answer looks like that a token did not open.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from hermesops.errors import HermesError, UsageError
from hermesops.model.ids import MachineId
from hermesops.model.token import LONGEST_TOKEN_LIFE, ProxyToken
from hermesops.registry import Registry

T = TypeVar("T")

RENEW_BEFORE = timedelta(minutes=30)
"""A token with less life left is replaced, so that whatever begins with it can also end with it."""


class Issued(Protocol):
    """A token as the vendor answers it."""

    @property
    def id(self) -> str:
        """With which it is revoked."""

    @property
    def token(self) -> str:
        """What opens the proxy."""

    @property
    def expires_at(self) -> datetime | None:
        """Until when; ``None`` when the vendor does not say."""


class Issuer(Protocol):
    """The vendor's side."""

    async def issue_proxy_token(self, machine_id: str, *, label: str, lifetime_s: int) -> Issued:
        """Make a token."""

    async def revoke_proxy_token(self, token_id: str) -> None:
        """End a token; one that is gone already is success."""


async def issue(issuer: Issuer, machine_id: MachineId, purpose: str, *, now: datetime) -> ProxyToken:
    """Have a token made that lives for as long as one of ours may, whatever the vendor says."""
    lifetime_s = int(LONGEST_TOKEN_LIFE.total_seconds())
    issued = await issuer.issue_proxy_token(machine_id, label=f"hermesops-{purpose}", lifetime_s=lifetime_s)
    longest = now + LONGEST_TOKEN_LIFE
    return ProxyToken(issued.id, machine_id, purpose, min(issued.expires_at or longest, longest), issued.token)


class ProxyTokens:
    """Hands out proxy tokens.

    Args:
        issuer: Who makes them.
        kept: Where they are remembered.
        now: What time it is; by default this computer's clock.
    """

    def __init__(
        self, issuer: Issuer, kept: Registry, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._issuer = issuer
        self._kept = kept
        self._now = now
        self._turns: dict[tuple[MachineId, str], asyncio.Lock] = {}

    async def token(self, machine_id: MachineId, *, purpose: str, instead_of: str = "") -> str:
        """A token with at least half an hour left; tasks that ask at once share one.

        Args:
            machine_id: Whose ports it opens.
            purpose: Who uses it and for what; each purpose has a token of its own.
            instead_of: A token that was refused: it is replaced even if it should still be good.

        Raises:
            HermesError: The vendor made none.
        """
        if not purpose:
            raise UsageError("a proxy token needs a purpose")
        async with self._turns.setdefault((machine_id, purpose), asyncio.Lock()):
            last = self._kept.proxy_tokens.get(machine_id, purpose)
            if last and last.token != instead_of and last.is_valid_at(self._now() + RENEW_BEFORE):
                return last.token
            fresh = await issue(self._issuer, machine_id, purpose, now=self._now())
            self._kept.proxy_tokens.keep(fresh)
            if last:
                await self._revoke(last)
            return fresh.token

    async def use(
        self,
        machine_id: MachineId,
        *,
        purpose: str,
        call: Callable[[str], Awaitable[T]],
        refused: Callable[[T], bool],
    ) -> T:
        """Call with a token; when that is refused, once more with a fresh one, and never a third time.

        The vendor's edge keeps its own copy of the tokens, which may lag behind; a refusal can also be the service's
        own, and then the second answer says so.

        Args:
            machine_id: Whose ports.
            purpose: As in ``token``.
            call: Makes the request with the token it is given; called at most twice, so it must not have an effect
                when it is refused.
            refused: Whether an answer is a refusal of the token (401 or 403).
        """
        token = await self.token(machine_id, purpose=purpose)
        answer = await call(token)
        if not refused(answer):
            return answer
        return await call(await self.token(machine_id, purpose=purpose, instead_of=token))

    async def revoke(self, machine_id: MachineId, *, purpose: str) -> None:
        """End a purpose's token now; harmless when there is none.

        Raises:
            HermesError: The vendor did not confirm; the token is still remembered, so the call can be repeated.
        """
        async with self._turns.setdefault((machine_id, purpose), asyncio.Lock()):
            last = self._kept.proxy_tokens.get(machine_id, purpose)
            if last:
                await self._issuer.revoke_proxy_token(last.id)
                self._kept.proxy_tokens.forget(machine_id, purpose)

    async def _revoke(self, token: ProxyToken) -> None:
        # Its life is short anyway; a failure here must not fail whoever got the fresh one.
        with contextlib.suppress(HermesError):
            await self._issuer.revoke_proxy_token(token.id)
