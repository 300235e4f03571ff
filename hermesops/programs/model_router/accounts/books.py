"""A router's accounts together with its undelivered usage: delivered usage is read back, undelivered usage is added."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from hermesops.errors import HermesError
from hermesops.model.billing.model_usage import Account, Spent, Usage
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.account_cache import EVERY_S, STALE_AFTER_S, AccountCache
from hermesops.programs.model_router.accounts.reservations import LONGEST_S
from hermesops.programs.model_router.accounts.usage import Spool

log = structlog.get_logger()


class Ledger(Protocol):
    """A router's access to the registry. Its methods block."""

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
    """The accounts of a router, and the usage that it has to deliver."""

    accounts: AccountCache
    spool: Spool

    def use(self, usage: Usage, reservation: str = "") -> None:
        """Store the usage of an answer and charge it to the instance's budget at once, in place of its reservation."""
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
    """Open books with a folder of undelivered usage; the folder is created if it is missing."""
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
