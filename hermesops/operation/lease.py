"""Holds a lease while work runs: taken, renewed in the background, given back.

A lease that could not be renewed in time stops the work: somebody else may hold it by now.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from hermesops import waiting
from hermesops.errors import HermesError, UnavailableError
from hermesops.model.operation import LEASE_S, Lease, LeaseHeldError

T = TypeVar("T")

POLL_S = 0.5
"""Seconds between two attempts of whoever waits for a lease: each of them is a write."""

RENEW_S = 5.0
"""Seconds between renewals: two may fail before the lease is lost."""

RETRY_S = 1.0
"""Seconds until a renewal that got no answer is tried again."""


class Leases(Protocol):
    """Where leases are kept."""

    def take_lease(self, subject: str, holder: str) -> Lease:
        """Take a free or expired lease; LeaseHeldError names who holds it."""

    def renew_lease(self, lease: Lease) -> Lease:
        """Hold it for another ``LEASE_S``; LeaseLostError when somebody has taken it over."""

    def release_lease(self, lease: Lease) -> None:
        """Give it back; harmless when it is lost."""


def this_process() -> str:
    """Who we are in a lease: host, process, and a random part against reused process ids."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class LeaseKeeper:
    """Holds one lease from entering to leaving the context.

    Args:
        leases: Where it is kept.
        subject: What is leased.
        wait_s: Seconds to wait for whoever holds it; 0 refuses at once.
        holder: Who we are; by default this process.
    """

    def __init__(self, leases: Leases, subject: str, *, wait_s: float = 0, holder: str = "") -> None:
        self._leases = leases
        self._subject = subject
        self._wait_s = wait_s
        self._holder = holder or this_process()
        self._lost = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None
        self.lease: Lease

    async def __aenter__(self) -> Self:
        self.lease = await self._take()
        self._renewal = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewal:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewal
        if not self._lost.is_set():
            with contextlib.suppress(HermesError):  # it expires by itself; the work's own result matters more
                self._leases.release_lease(self.lease)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, and stop it when the lease is lost.

        Raises:
            UnavailableError: The lease was lost; what was done so far is found by the next run.
        """
        doing = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({doing, losing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise UnavailableError(f"lost the lease of {self._subject}; stopped before touching anything further")
        finally:
            for task in (doing, losing):
                task.cancel()
            await asyncio.gather(doing, losing, return_exceptions=True)

    async def lost(self) -> None:
        """Return once the lease is lost."""
        await self._lost.wait()

    async def _take(self) -> Lease:
        async def attempt() -> Lease | waiting.Pending[Lease]:
            try:
                return self._leases.take_lease(self._subject, self._holder)
            except LeaseHeldError as held:
                if self._wait_s == 0:
                    raise
                return waiting.Pending(held.message)

        return await waiting.until(
            attempt, what=f"the lease of {self._subject}", timeout_s=self._wait_s, every_s=POLL_S
        )

    async def _renew(self) -> None:
        held_until = time.monotonic() + LEASE_S
        pause_s = RENEW_S
        while True:
            await waiting.pause(pause_s)
            asked = time.monotonic()
            try:
                self.lease = self._leases.renew_lease(self.lease)
            except UnavailableError:
                # No answer says nothing about the lease: it is ours for as long as nobody may take it over.
                if time.monotonic() + RETRY_S >= held_until:
                    break
                pause_s = RETRY_S
            except HermesError:
                break
            else:
                held_until, pause_s = asked + LEASE_S, RENEW_S
        self._lost.set()
