"""Reports a user's usage: one event after the other, each begun in the ledger before it is sent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermesops.errors import UnavailableError
from hermesops.model.billing.metering import EntryState, LedgerEntry
from hermesops.model.ids import UserId
from hermesops.store.registry import Registry
from hermesops.users.billing.stripe_api import StripeRefusedError
from hermesops.users.metering.decide import LookUp, Refuse, Rest, Send, Step, looked_up, next_step
from hermesops.users.metering.stripe_meters import StripeMeters


@dataclass(frozen=True)
class Reporter:
    """Reports entries of the ledger; ``customer_of`` as of ``Metering``."""

    registry: Registry
    at_stripe: StripeMeters
    customer_of: Callable[[str], Awaitable[str]]

    async def report(self, user_id: UserId) -> None:
        """Report a user's entries, the oldest first.

        Stripe takes one event of a customer and meter at a time, so that nothing here is concurrent.
        Source: https://docs.stripe.com/billing/subscriptions/usage-based/recording-usage-api.

        Raises:
            UnavailableError: Stripe does not answer; the rest waits.
            RefusedError: The key may not report, or Stripe refuses an entry; the others were reported.
        """
        refused: StripeRefusedError | None = None
        for row in self.registry.metering.pending_of(user_id):
            if row.entry.meter not in self.at_stripe.event_names:
                continue  # it is not metered any more
            try:
                await self._step(row)
            except StripeRefusedError as error:
                self.registry.metering.end(row.entry.identifier, EntryState.PENDING, error.message)
                refused = error
        if refused is not None:
            raise refused

    async def _step(self, row: LedgerEntry) -> None:
        step: Step | None = next_step(row, now=self.registry.now())
        is_anew = False
        if isinstance(step, LookUp):
            quantity = await self._at_stripe(row)
            step, is_anew = looked_up(row.entry, quantity, now=self.registry.now()), True
        match step:
            case Send():
                await self._send(row, is_anew=is_anew)
            case Refuse(why=why):
                self.registry.metering.end(row.entry.identifier, EntryState.REFUSED, why)
            case Rest() | LookUp():
                pass
            case None:
                self.registry.metering.end(row.entry.identifier, EntryState.REPORTED)

    async def _send(self, row: LedgerEntry, *, is_anew: bool) -> None:
        entry = row.entry
        customer = row.customer or await self.customer_of(entry.subscription_id)
        if not customer:
            raise UnavailableError(f"Stripe names no customer of {entry.subscription_id}")
        self.registry.metering.begin(entry.identifier, customer, is_anew=is_anew)
        await self.at_stripe.report(entry, customer)
        self.registry.metering.end(entry.identifier, EntryState.REPORTED)

    async def _at_stripe(self, row: LedgerEntry) -> int:
        meter_ids = await self.at_stripe.ids()
        return await self.at_stripe.in_minute(meter_ids[row.entry.meter], row.customer, row.entry)
