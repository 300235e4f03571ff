"""Holds leases while work runs: acquires them, renews those of this process together, and releases them.

A lease that was not renewed in time stops the work: another process may hold it. The lease of a dead local process is
taken over at once. Renewal is one write every few seconds, for any number of leases, and runs in the event loop on
purpose: a process with a blocked loop must lose its leases.
"""

import asyncio
import contextlib
import time
import weakref
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from hermesops.base import waiting
from hermesops.base.waiting import cancel
from hermesops.errors import HermesError, NotWrittenError, UnavailableError
from hermesops.model.operation import LEASE_S, Lease, LeaseHeldError
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.leases.holder import is_gone, this_process
from hermesops.store.operations.leases.under_way import held_by
from hermesops.store.registry import Registry

T = TypeVar("T")

POLL_S = 0.5
"""Seconds between two attempts to take a held lease: each is a write."""

SETTLE_S = 2.0
"""Seconds for requests of a dead process to end."""

RENEW_S = 5.0
"""Seconds between renewals: two may fail before a lease is lost."""

RETRY_S = 1.0
"""Seconds until a renewal that got no answer is tried again."""


_renewals: "weakref.WeakKeyDictionary[Registry, Renewals]" = weakref.WeakKeyDictionary()


@dataclass
class RenewedLease:
    """A lease that is renewed.

    Attributes:
        until: No other process may acquire it before, by this process's clock.
        lost: Set once another process may hold it.
        problem: Cause of the failed renewal; ``None`` if another process took the lease.
    """

    lease: Lease
    until: float
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    problem: HermesError | None = None


class Renewals:
    """The leases that this process holds in one registry."""

    def __init__(self, leases: Registry) -> None:
        self._leases = weakref.ref(leases)
        self._held: dict[int, RenewedLease] = {}
        self._running: asyncio.Task[None] | None = None

    def hold(self, lease: Lease) -> RenewedLease:
        """Renew a lease that was just taken, until it is let go or lost."""
        renewed = RenewedLease(lease, time.monotonic() + LEASE_S)
        self._held[id(renewed)] = renewed
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return renewed

    async def let_go(self, renewed: RenewedLease) -> None:
        """Stop renewing this lease; it expires unless it is released."""
        self._held.pop(id(renewed), None)
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

    async def _renew(self, leases: Sequence[RenewedLease]) -> float:
        """Renew these leases; returns the seconds until the next renewal."""
        registry, asked_at = self._leases(), time.monotonic()
        if registry is None:
            self._lose(leases)
            return RENEW_S
        try:
            gone = await in_db_thread(registry.leases.renew, [renewed.lease for renewed in leases])
        except UnavailableError as error:
            # No answer proves nothing about a lease: it is ours until others may acquire it.
            self._lose((renewed for renewed in leases if time.monotonic() + RETRY_S >= renewed.until), error)
            return RETRY_S
        except HermesError as error:
            self._lose(leases, error)
            return RENEW_S
        self._lose(renewed for renewed in leases if renewed.lease.subject in gone)
        for renewed in leases:
            renewed.until = asked_at + LEASE_S
        return RENEW_S

    def _lose(self, leases: Iterable[RenewedLease], problem: HermesError | None = None) -> None:
        for renewed in leases:
            renewed.problem = problem
            self._held.pop(id(renewed), None)
            renewed.lost.set()


def renewals_in(leases: Registry) -> Renewals:
    """The renewals of this process in a registry."""
    return _renewals.setdefault(leases, Renewals(leases))


class LeaseKeeper:
    """Holds one lease within a context.

    Args:
        wait_s: Seconds to wait while another process holds it; 0 refuses at once.
    """

    def __init__(self, leases: Registry, subject: str, *, wait_s: float = 0) -> None:
        self._leases = leases
        self._subject = subject
        self._wait_s = wait_s
        self._holder = this_process()
        self._held: RenewedLease
        self.lease: Lease

    async def __aenter__(self) -> Self:
        self.lease = await self._take()
        self._held = renewals_in(self._leases).hold(self.lease)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await renewals_in(self._leases).let_go(self._held)
        if not self._held.lost.is_set():
            with contextlib.suppress(HermesError):  # it expires by itself; the work's own result matters more
                await in_db_thread(self._leases.leases.release, self.lease)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, and cancel it when the lease is lost.

        Raises:
            UnavailableError: The lease was lost; the next run continues from observed state.
            NotWrittenError: The lease was lost because the renewal could not be written to disk.
        """
        doing = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self._held.lost.wait())
        try:
            await asyncio.wait({doing, losing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise _lost(self._subject, self._held.problem)
        finally:
            await cancel(doing, losing)

    async def _take(self) -> Lease:
        gone = ""

        async def attempt() -> Lease | waiting.Pending[Lease]:
            nonlocal gone
            try:
                return self._leases.leases.take(self._subject, self._holder, over=gone)
            except LeaseHeldError as held:
                if held.holder != gone and is_gone(held.holder):
                    gone = held.holder
                    await waiting.pause(SETTLE_S)
                    return await attempt()
                if self._wait_s == 0:
                    raise held_by(self._leases, held, self._subject) from held
                return waiting.Pending(held_by(self._leases, held, self._subject).message)

        return await waiting.until(
            attempt, what=f"the lease of {self._subject}", timeout_s=self._wait_s, every_s=POLL_S
        )


def _lost(subject: str, problem: HermesError | None) -> HermesError:
    stopped = "stopped without further changes"
    if problem is None:
        return UnavailableError(f"lost the lease of {subject}; {stopped}")
    kind = NotWrittenError if isinstance(problem, NotWrittenError) else UnavailableError
    return kind(f"lost the lease of {subject}, not renewed: {problem.message}; {stopped}", hint=problem.hint)
