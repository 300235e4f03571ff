"""A router's accounts and undelivered usage, tied together: what is delivered is read back, what is not is added."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.model_usage import Account, Spent, Usage
from hermesops.programs.model_router.account_cache import EVERY_S, STALE_AFTER_S, AccountCache
from hermesops.programs.model_router.reservations import LONGEST_S
from hermesops.programs.model_router.usage import Spool

log = structlog.get_logger()


class Ledger(Protocol):
    """The registry, as a router uses it. Methods block."""

    def read(self) -> Mapping[InstanceId, Account]:
        """All accounts.

        Raises:
            HermesError: They could not be read.
        """

    def write(self, batch: str, rows: Sequence[Usage]) -> None:
        """Add a batch unless it is there.

        Raises:
            HermesError: It may not be there.
        """


@dataclass(frozen=True)
class Books:
    """What a router knows of instances, and what it has to tell of them."""

    accounts: AccountCache
    spool: Spool

    def use(self, usage: Usage, reservation: str = "") -> None:
        """Keep what an answer used; it counts for the instance's budget at once, in the place of its reservation."""
        self.spool.add(usage)
        if usage.input_tokens or usage.output_tokens:
            spent = Spent(usage.input_tokens + usage.output_tokens, usage.micros)
            self.accounts.charge(usage.instance_id, spent)
            self.accounts.reservations.settle(reservation)


def open_books(
    ledger: Ledger,
    folder: Path,
    *,
    every_s: float = EVERY_S,
    stale_after_s: float = STALE_AFTER_S,
    longest_s: float = LONGEST_S,
) -> Books:
    """Books whose undelivered usage is in a folder, which is made where it is absent."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    spool = Spool(folder, ledger.write)

    async def deliver() -> bool:
        try:
            await asyncio.to_thread(spool.deliver)
        except HermesError:
            return False  # reading says why
        except Exception as error:  # noqa: BLE001 - usage waits in its files; tokens must be read all the same
            log.error("usage_not_delivered", problem=type(error).__name__)  # noqa: TRY400 - its text may hold values
            return False
        return True

    accounts = AccountCache(
        ledger.read, deliver=deliver, every_s=every_s, stale_after_s=stale_after_s, longest_s=longest_s
    )
    return Books(accounts, spool)
