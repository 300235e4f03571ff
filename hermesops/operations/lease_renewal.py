"""Renews all leases that a process holds, together: one write every few seconds, however much is worked on.

It runs in the event loop on purpose: a process whose loop hangs shall lose its leases.
"""

import asyncio
import contextlib
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hermesops import waiting
from hermesops.errors import HermesError, UnavailableError
from hermesops.model.operation import LEASE_S, Lease
from hermesops.operations.db_thread import in_db_thread
from hermesops.registry import Registry

RENEW_S = 5.0
"""Seconds between renewals: two may fail before a lease is lost."""

RETRY_S = 1.0
"""Seconds until a renewal that got no answer is tried again."""


@dataclass
class RenewedLease:
    """A lease that is renewed.

    Attributes:
        until: Until when nobody may take it over, by this process's clock.
        lost: Set once somebody else may hold it.
    """

    lease: Lease
    until: float
    lost: asyncio.Event = field(default_factory=asyncio.Event)


class Renewals:
    """The leases that this process holds in one registry.

    Args:
        leases: Where they are kept.
    """

    def __init__(self, leases: Registry) -> None:
        self._leases = weakref.ref(leases)
        self._held: dict[int, RenewedLease] = {}
        self._running: asyncio.Task[None] | None = None

    def hold(self, lease: Lease) -> RenewedLease:
        """Renew a lease that was just taken, until it is let go or lost."""
        held = RenewedLease(lease, time.monotonic() + LEASE_S)
        self._held[id(held)] = held
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return held

    async def let_go(self, held: RenewedLease) -> None:
        """Renew it no more."""
        self._held.pop(id(held), None)
        if not self._held and self._running:
            running, self._running = self._running, None
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def _run(self) -> None:
        pause_s = RENEW_S
        while self._held:
            await waiting.pause(pause_s)
            pause_s = await self._renew(tuple(self._held.values()))

    async def _renew(self, held: Sequence[RenewedLease]) -> float:
        """Renew these; the seconds until the next time."""
        leases, asked = self._leases(), time.monotonic()
        if leases is None:
            self._lose(held)
            return RENEW_S
        try:
            gone = await in_db_thread(leases.leases.renew, [one.lease for one in held])
        except UnavailableError:
            # No answer says nothing about a lease: it is ours for as long as nobody may take it over.
            self._lose(one for one in held if time.monotonic() + RETRY_S >= one.until)
            return RETRY_S
        except HermesError:
            self._lose(held)
            return RENEW_S
        self._lose(one for one in held if one.lease.subject in gone)
        for one in held:
            one.until = asked + LEASE_S
        return RENEW_S

    def _lose(self, held: Iterable[RenewedLease]) -> None:
        for one in held:
            self._held.pop(id(one), None)
            one.lost.set()


_renewals: "weakref.WeakKeyDictionary[Registry, Renewals]" = weakref.WeakKeyDictionary()


def renewals_in(leases: Registry) -> Renewals:
    """Those of this process in a registry, whoever holds them."""
    return _renewals.setdefault(leases, Renewals(leases))
