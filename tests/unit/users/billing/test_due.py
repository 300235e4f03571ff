"""The table of runbooks/billing-events.md: status x newest invoice x pause x our clock, whole and in all orders."""

import re
from datetime import UTC, datetime, timedelta
from itertools import permutations, product
from pathlib import Path

from hermesops.model.billing.events import CREATED, PAID, PAYMENT_FAILED, BillingFact
from hermesops.model.ids import UserId
from hermesops.model.plan import Plan
from hermesops.users.billing.decide import Due, Policy, due
from hermesops.users.billing.subscription import Status, subscription_of

ADA = UserId("11111111-1111-4111-8111-111111111111")
BEGIN, CHANGED = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
POLICY = Policy({"light": Plan.LIGHT}, timedelta(days=3))
RUNBOOK = Path(__file__).parents[4] / "runbooks" / "billing-events.md"

RUNNING = {Status.TRIALING, Status.ACTIVE}
FAILING = {Status.PAST_DUE, Status.UNPAID, Status.PAUSED}

INVOICES: dict[str, tuple[tuple[str, int], ...]] = {
    "none": (),
    "paid before": ((PAID, -60),),
    "paid in the same second": ((PAID, 0),),
    "paid after": ((PAID, 86_400),),
    "failed before": ((PAYMENT_FAILED, -60),),
    "failed after": ((PAYMENT_FAILED, 60),),
    "one failed, an older one paid": ((PAYMENT_FAILED, 0), (PAID, 86_400)),
}
"""Seconds from the subscription's newest state to events about its invoices."""


def expected(status: Status, pause: str, *, in_grace: bool) -> Due:
    if status in {Status.CANCELED, Status.INCOMPLETE_EXPIRED}:
        return Due.ENDS
    if status is Status.INCOMPLETE:
        return Due.NOTHING
    if pause == "void":
        return Due.SUSPENDED
    if status in RUNNING:
        return Due.RUNS
    return Due.IN_GRACE if in_grace else Due.SUSPENDED


def facts(status: Status, invoices: str, pause: str) -> list[BillingFact]:
    state = ("customer.subscription.updated", "sub_1", CHANGED, ADA, ("light",), status.value, BEGIN, pause)
    invoiced = [
        BillingFact(f"evt_{number}", kind, "sub_1", CHANGED + timedelta(seconds=seconds))
        for number, (kind, seconds) in enumerate(INVOICES[invoices])
    ]
    return [
        BillingFact("evt_created", CREATED, "sub_1", BEGIN, ADA, ("light",), Status.ACTIVE.value, BEGIN),
        BillingFact("evt_changed", *state),
        *invoiced,
    ]


def test_the_whole_table_in_all_orders() -> None:
    wrong = []
    for status, invoices, pause in product(Status, INVOICES, ("", "void", "keep_as_draft", "mark_uncollectible")):
        for days, order in product((2, 4), permutations(facts(status, invoices, pause))):
            subscription = subscription_of(order)
            assert subscription is not None
            entitled = due(subscription, POLICY, now=CHANGED + timedelta(days=days))
            if entitled is not expected(status, pause, in_grace=days < 3):
                wrong.append((status.value, invoices, pause, days, [fact.type for fact in order], entitled.value))
    assert not wrong


def test_the_runbook_has_the_same_table() -> None:
    rows = re.findall(
        r"^\| `([a-z_`, ]+)` \| ([^|]+) \| ([^|]+) \| \*\*([\w ]+)\*\*", RUNBOOK.read_text(), re.MULTILINE
    )
    due_by_case = {
        (Status(status), pause, in_grace): Due(entitled)
        for statuses, pauses, grace, entitled in rows
        for status in statuses.replace("`", "").split(", ")
        for pause in (["void"] if pauses == "`void`" else ["", "void"] if pauses == "any" else [""])
        for in_grace in ([True] if grace == "within the grace" else [False] if grace == "after it" else [True, False])
    }
    table = {
        (status, pause, in_grace): expected(status, pause, in_grace=in_grace)
        for status, pause, in_grace in product(Status, ("", "void"), (True, False))
    }
    assert due_by_case == table
