"""A model router's copy of the accounts: the valid tokens and the remaining monthly budget of each instance.

A router gets no notifications: it reads at its start and then every two seconds, so a router that was down during a
revocation knows it before its first answer. A floor never decreases while the router runs, even if a reading is older.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace

import structlog

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.model.billing.model_usage import NOTHING, Account, Spent
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.reservations import LONGEST_S, Reservations

EVERY_S = 2.0
"""Seconds from one reading to the next."""

STALE_AFTER_S = 300.0
"""Seconds without a reading after which no token counts.

Long enough for a database to be restarted or failed over: all users' models must not go away with it. Nothing can be
revoked while the database is away; this bounds how long a router that is cut off from a working one goes on.
"""

_AGAIN_S = 0.1
"""Seconds between readings for instances that are not known, so that an ended one's token cannot ask for more."""

log = structlog.get_logger()


ReadAccounts = Callable[[], Mapping[InstanceId, Account]]
"""Reads all of them; may block, and raise ``HermesError``."""


async def _nothing() -> bool:
    return True


class AccountCache:
    """The accounts of all instances.

    Args:
        read: Reads all accounts.
        deliver: Writes what was spent since it was last called to where ``read`` finds it, and tells whether all is
            there.
        stale_after_s: Seconds without a reading after which ``are_known`` is false.
        longest_s: Seconds after which an answer is cut off.
        clock: Seconds that never go back; for tests.
    """

    def __init__(
        self,
        read: ReadAccounts,
        *,
        deliver: Callable[[], Awaitable[bool]] = _nothing,
        every_s: float = EVERY_S,
        stale_after_s: float = STALE_AFTER_S,
        longest_s: float = LONGEST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._deliver = deliver
        self._every_s = every_s
        self._stale_after_s = stale_after_s
        self._clock = clock
        self.reservations = Reservations(longest_s, clock=clock)
        """What open requests may still cost."""
        self._accounts: dict[InstanceId, Account] = {}
        self._fresh: dict[InstanceId, Spent] = {}
        self._delivering: dict[InstanceId, Spent] = {}
        self._read_at: float | None = None
        self._problem = ""
        self._reading = asyncio.Lock()

    @property
    def are_known(self) -> bool:
        """Whether the accounts are recent; otherwise no token is valid."""
        return self._read_at is not None and self._clock() - self._read_at <= self._stale_after_s

    @property
    def age_s(self) -> float:
        """Seconds since the last reading began; infinite before the first."""
        return float("inf") if self._read_at is None else self._clock() - self._read_at

    def of(self, instance_id: InstanceId) -> Account | None:
        """An instance's account including its latest spending; ``None`` for an instance that the registry lacks."""
        account = self._accounts.get(instance_id)
        if account is None:
            return None
        unread = self._fresh.get(instance_id, NOTHING) + self._delivering.get(instance_id, NOTHING)
        return replace(account, spent=account.spent + unread)

    async def of_newest(self, instance_id: InstanceId) -> Account | None:
        """Like ``of``, but for an instance that the last reading lacked, read once more: it may be newer.

        A user who gets an agent of a warm pool writes to it within a second.
        """
        async with self._reading:
            lacks = instance_id not in self._accounts
            if lacks and (self._read_at is None or self._clock() - self._read_at >= _AGAIN_S):
                await self._read_once()
        return self.of(instance_id)

    def charge(self, instance_id: InstanceId, spent: Spent) -> None:
        """Add an instance's spending, before the registry has it."""
        self._fresh[instance_id] = self._fresh.get(instance_id, NOTHING) + spent

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Read the accounts repeatedly for the length of a ``with``."""
        keeper = asyncio.create_task(self._keep(), name="read accounts of the model router")
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await self.read()
            await pause(self._every_s)

    async def read(self) -> None:
        """Read the accounts once; log a failure once, until it ends."""
        async with self._reading:
            await self._read_once()

    async def _read_once(self) -> None:
        asked_at = self._clock()
        for instance_id, spent in self._fresh.items():
            self._delivering[instance_id] = self._delivering.get(instance_id, NOTHING) + spent
        self._fresh = {}
        try:
            is_delivered = await self._deliver()
            accounts = await asyncio.to_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the router goes on with what it knows until that is stale
            self._report(error.message if isinstance(error, HermesError) else f"{type(error).__name__}: {error}")
            return
        # As of before the question: a revocation during it may be missing.
        self._read_at = asked_at
        known = self._accounts
        self._accounts = {
            instance_id: replace(account, floor=max(account.floor, known.get(instance_id, account).floor))
            for instance_id, account in accounts.items()
        }
        if is_delivered:
            self._delivering = {}
        self._report("")

    def _report(self, problem: str) -> None:
        """Log a problem once, and later its end; empty means no problem."""
        if problem and problem != self._problem:
            log.warning("accounts_not_read", problem=problem)
        elif self._problem and not problem:
            log.info("accounts_read_again")
        self._problem = problem
