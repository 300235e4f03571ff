"""Tokens for the vendor's proxy: one per machine and purpose, of at most six hours, renewed before they expire.

It must not know the services behind the proxy; callers say in ``refused`` which answers are refusals of the token.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from hermesops.errors import HermesError, UsageError
from hermesops.model.access.token import LONGEST_TOKEN_LIFE, ProxyToken
from hermesops.model.ids import MachineId
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.client import Client

T = TypeVar("T")

RENEW_BEFORE = timedelta(minutes=30)
"""A token with less life left is replaced, so that work that starts with it can also end with it."""


async def issue(issuer: Client, machine_id: MachineId, purpose: str, *, now: datetime) -> ProxyToken:
    """Make a token that lives as long as one of ours may, whatever the vendor says."""
    lifetime_s = int(LONGEST_TOKEN_LIFE.total_seconds())
    issued = await issuer.issue_proxy_token(machine_id, label=f"hermesops-{purpose}", lifetime_s=lifetime_s)
    longest = now + LONGEST_TOKEN_LIFE
    return ProxyToken(issued.id, machine_id, purpose, min(issued.expires_at or longest, longest), issued.token)


class ProxyTokens:
    """Issues proxy tokens for machines, and reuses them until half an hour before their end."""

    def __init__(
        self, issuer: Client, registry: Registry, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._issuer = issuer
        self._registry = registry
        self._now = now
        self._turns: dict[tuple[MachineId, str], asyncio.Lock] = {}

    async def token(self, machine_id: MachineId, *, purpose: str, instead_of: str = "") -> str:
        """A token with at least half an hour left; concurrent tasks share one.

        Each purpose has a token of its own. ``instead_of`` was refused, and is replaced even if it should still be
        valid.

        Raises:
            HermesError: The vendor made none.
        """
        if not purpose:
            raise UsageError("a proxy token needs a purpose")
        async with self._turns.setdefault((machine_id, purpose), asyncio.Lock()):
            last = self._registry.proxy_tokens.get(machine_id, purpose)
            if last and last.token != instead_of and last.is_valid_at(self._now() + RENEW_BEFORE):
                return last.token
            fresh = await issue(self._issuer, machine_id, purpose, now=self._now())
            self._registry.proxy_tokens.keep(fresh)
            if last:
                # Its life is short anyway; a failure here must not fail the caller, who has the fresh one.
                with contextlib.suppress(HermesError):
                    await self._issuer.revoke_proxy_token(last.id)
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

        The vendor's edge has its own copy of the tokens, which may lag behind. A refusal can also be the service's own;
        then the second answer says so.

        ``call`` makes the request with a token, at most twice, so it must have no effect when it is refused;
        ``refused`` says whether an answer is a refusal of the token (401 or 403).
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
            last = self._registry.proxy_tokens.get(machine_id, purpose)
            if last:
                await self._issuer.revoke_proxy_token(last.id)
                self._registry.proxy_tokens.forget(machine_id, purpose)
