"""Holds a lease while work runs: taken, renewed in the background with the others of this process, given back.

A lease that could not be renewed in time stops the work: somebody else may hold it by now. One whose holder is seen
to be gone is taken over without waiting until it runs out.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from hermesops import waiting
from hermesops.errors import HermesError, UnavailableError
from hermesops.model.operation import Lease, LeaseHeldError
from hermesops.operations.db_thread import in_db_thread
from hermesops.operations.holder import is_gone, this_process
from hermesops.operations.lease_renewal import RenewedLease, renewals_in
from hermesops.registry import Registry
from hermesops.waiting import cancel

T = TypeVar("T")

POLL_S = 0.5
"""Seconds between two attempts of whoever waits for a lease: each of them is a write."""

SETTLE_S = 2.0
"""Seconds that what a dead process had asked of others has to come to its end."""


class LeaseKeeper:
    """Holds one lease from entering to leaving the context.

    Args:
        leases: Where it is kept.
        subject: What is leased.
        wait_s: Seconds to wait for whoever holds it; 0 refuses at once.
        holder: Who we are; by default this process.
    """

    def __init__(self, leases: Registry, subject: str, *, wait_s: float = 0, holder: str = "") -> None:
        self._leases = leases
        self._subject = subject
        self._wait_s = wait_s
        self._holder = holder or this_process()
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
        """Run ``work``, and stop it when the lease is lost.

        Raises:
            UnavailableError: The lease was lost; what was done so far is found by the next run.
        """
        doing = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self._held.lost.wait())
        try:
            await asyncio.wait({doing, losing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise UnavailableError(f"lost the lease of {self._subject}; stopped before touching anything further")
        finally:
            await cancel(doing, losing)

    async def lost(self) -> None:
        """Return once the lease is lost."""
        await self._held.lost.wait()

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
                    raise
                return waiting.Pending(held.message)

        return await waiting.until(
            attempt, what=f"the lease of {self._subject}", timeout_s=self._wait_s, every_s=POLL_S
        )
