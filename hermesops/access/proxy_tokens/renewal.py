"""Renews tokens that others use before they expire: the new one is tried first, the old one is revoked last.

A killed renewal leaves a row for each token that is still valid at the vendor, and the next one goes on from there.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hermesops.access.proxy_tokens.issue import RENEW_BEFORE, issue
from hermesops.base import waiting
from hermesops.base.fan_out import Limits, problems
from hermesops.errors import HermesError
from hermesops.model.access.token import (
    LONGEST_TOKEN_LIFE,
    PLATFORM,
    KeptToken,
    ProxyToken,
    former_of,
    next_of,
    purpose_of,
)
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.model.ids import MachineId
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.client import Client

_LEAST_LEFT = max(LONGEST_TOKEN_LIFE / 2, timedelta(hours=2))
"""A token with less life left is renewed: the other half of its life is there for failed attempts."""

_EDGE_S = 60.0
"""Seconds for a new token to reach the vendor's edge, which keeps its own copy of them.

Source: facts on the vendor's public client: "DB copy diverged from CF KV"; how long it lags is not documented.
"""

_SLOW_S, _LONGEST_S = 15.0, 180.0
"""Seconds for which one machine's renewal holds a place, and after which it is cancelled."""


@dataclass(frozen=True)
class Due:
    """Tokens to renew and to drop.

    Attributes:
        renew: Machines whose token for the platform is missing or past half its life.
        drop: Tokens that are no longer used.
    """

    renew: tuple[MachineId, ...]
    drop: tuple[KeptToken, ...]


def due_of(
    running: Collection[MachineId], used: Collection[MachineId], stored: Iterable[KeptToken], now: datetime
) -> Due:
    """Return the tokens to renew and to drop. Pure.

    ``running`` are machines of running agents; ``used`` are those and others that an operation uses.
    """
    tokens = list(stored)
    fresh = {token.machine_id for token in tokens if token.purpose == PLATFORM and token.expires_at - now > _LEAST_LEFT}
    drop = [token for token in tokens if not _is_used(token, running, used)]
    return Due(tuple(machine for machine in running if machine not in fresh), tuple(drop))


def machines_in_use(
    instances: Iterable[Instance], unassigned: Iterable[UnassignedMachine]
) -> tuple[list[MachineId], frozenset[MachineId]]:
    """Machines of agents that run, and all that something is done with: instances' own and those kept for them. Pure.

    A machine that an instance has left is not in use: it is only kept until it is given back.
    """
    living = [(instance.machine_id, instance.status) for instance in instances if instance.machine_id]
    running = [machine for machine, status in living if status is InstanceStatus.RUNNING]
    beside = (
        machine.machine_id for machine in unassigned if machine.wanted and machine.role is not MachineRole.PREVIOUS
    )
    return running, frozenset(machine for machine in (*(each for each, _ in living), *beside) if machine)


def _is_used(token: KeptToken, running: Collection[MachineId], used: Collection[MachineId]) -> bool:
    purpose = purpose_of(token.purpose)
    if purpose == PLATFORM:
        # The platform sends nothing to a suspended agent, and a replaced token is not used.
        return token.machine_id in running and token.purpose != former_of(PLATFORM)
    return token.machine_id in used


class TokenRenewal:
    """Renews tokens.

    Args:
        opens: Whether a token opens a machine's ports through the proxy.
        address: URL of a machine's ports, kept with the token so that its users need no API key.
        now: The time; by default this computer's clock.
        edge_timeout_s: Seconds for a new token to reach the vendor's edge.
    """

    def __init__(
        self,
        issuer: Client,
        registry: Registry,
        opens: Callable[[MachineId, str], Awaitable[bool]],
        address: Callable[[MachineId], Awaitable[str]],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        edge_timeout_s: float = _EDGE_S,
    ) -> None:
        self._issuer = issuer
        self._registry = registry
        self._opens = opens
        self._address = address
        self._now = now
        self._edge_timeout_s = edge_timeout_s

    async def renew(self, machine_id: MachineId, purpose: str = PLATFORM) -> ProxyToken:
        """Replace a purpose's token by a new one that works; of two renewals at once, from two computers, one wins.

        Raises:
            UnavailableError: The new one did not open the proxy, or there was no answer; the old one stays in use.
        """
        await self._end_former(machine_id, purpose)
        old = self._registry.proxy_tokens.get(machine_id, purpose)
        fresh = await self._fresh(machine_id, purpose)
        try:
            await self._try(machine_id, fresh)
            fresh = replace(fresh, address=await self._address(machine_id))
        except HermesError:
            await self._end(fresh, next_of(purpose))
            raise
        if not self._registry.proxy_tokens.replace(fresh, before=old.id if old else ""):
            await self._end(fresh, next_of(purpose))
            return self._registry.proxy_tokens.get(machine_id, purpose) or fresh
        with contextlib.suppress(HermesError):  # its row stays, to be revoked later
            await self._end_former(machine_id, purpose)
        return fresh

    async def drop(self, token: KeptToken) -> None:
        """Revoke a token and delete its row.

        Raises:
            HermesError: The vendor did not confirm; the row stays.
        """
        await self._issuer.revoke_proxy_token(token.id)
        self._registry.proxy_tokens.forget(token.machine_id, token.purpose, token_id=token.id)

    async def _fresh(self, machine_id: MachineId, purpose: str) -> ProxyToken:
        """The untried token of a killed renewal, else a new one."""
        asked_at = self._now()
        left = self._registry.proxy_tokens.get(machine_id, next_of(purpose))
        if left and left.is_valid_at(asked_at + _LEAST_LEFT + RENEW_BEFORE):
            return ProxyToken(left.id, machine_id, purpose, left.expires_at, left.token)
        if left:
            await self._end(left, left.purpose)
        fresh = await issue(self._issuer, machine_id, purpose, now=asked_at)
        self._registry.proxy_tokens.keep_next(fresh)
        return fresh

    async def _try(self, machine_id: MachineId, fresh: ProxyToken) -> None:
        async def opens() -> bool | waiting.Pending[bool]:
            return True if await self._opens(machine_id, fresh.token) else waiting.Pending("refused by the proxy")

        await waiting.until(opens, what="the new proxy token", timeout_s=self._edge_timeout_s, every_s=1.0)

    async def _end_former(self, machine_id: MachineId, purpose: str) -> None:
        if former := self._registry.proxy_tokens.get(machine_id, former_of(purpose)):
            await self._end(former, former.purpose)

    async def _end(self, token: ProxyToken, kept_as: str) -> None:
        await self.drop(KeptToken(token.id, token.machine_id, kept_as, token.expires_at))


async def renew_each(
    machines: Mapping[MachineId, str], renew: Callable[[MachineId], Awaitable[object]], *, at_once: int
) -> dict[str, str]:
    """Renew the tokens of several machines, a few at a time; by owner why it failed, empty where it did not."""
    limits = Limits(at_once, slow_after_s=_SLOW_S, within_s=_LONGEST_S)
    return await problems({owner: machine for machine, owner in machines.items()}, renew, limits)
