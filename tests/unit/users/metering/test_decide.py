"""Decisions about metered usage: each unit is in one entry, and each entry is at Stripe once."""

from datetime import UTC, date, datetime, timedelta

import pytest

from hermesops.model.billing.metering import Entered, Entry, EntryState, LedgerEntry, Meter, Metered
from hermesops.model.ids import InstanceId, UserId
from hermesops.users.metering.decide import (
    LookUp,
    Refuse,
    Rest,
    Send,
    Step,
    differences,
    looked_up,
    new_entries,
    next_step,
    sums_of,
)

NOW = datetime(2026, 11, 29, 12, 30, 17, tzinfo=UTC)
TODAY, YESTERDAY = date(2026, 11, 29), date(2026, 11, 28)
DAYS, MODEL = Meter.INSTANCE_DAYS, Meter.MODEL_MICROS
ID, USER = InstanceId("11111111-1111-4111-8111-111111111111"), UserId("22222222-2222-4222-8222-222222222222")
HOUR = timedelta(hours=1)


def metered(*, since: date = YESTERDAY, is_running: bool = True) -> Metered:
    return Metered(ID, USER, "sub_1", since, is_running)


def row(quantity: int = 1, *, age: timedelta = HOUR, tried_for: timedelta | None = None) -> LedgerEntry:
    entry = Entry(ID, USER, "sub_1", DAYS, TODAY, 1, quantity, (NOW - age).replace(second=0))
    return LedgerEntry(entry, first_tried_at=None if tried_for is None else NOW - tried_for, customer="cus_1")


@pytest.mark.parametrize(
    ("instance", "used", "entered", "begin", "expected"),
    [
        pytest.param(metered(), {}, {}, YESTERDAY, [(DAYS, TODAY, 1, 1)], id="a day on which it runs"),
        pytest.param(metered(), {}, {(ID, DAYS, TODAY): Entered(1, 1, NOW)}, YESTERDAY, [], id="a day counts once"),
        pytest.param(metered(is_running=False), {}, {}, YESTERDAY, [], id="a suspended agent"),
        pytest.param(metered(), {}, {}, date(2026, 11, 30), [], id="before metering begins"),
        pytest.param(
            metered(is_running=False), {(ID, TODAY): 5}, {}, YESTERDAY, [(MODEL, TODAY, 1, 5)], id="first use of models"
        ),
        pytest.param(
            metered(is_running=False),
            {(ID, TODAY): 9},
            {(ID, MODEL, TODAY): Entered(5, 2, NOW - HOUR)},
            YESTERDAY,
            [(MODEL, TODAY, 3, 4)],
            id="growth after an hour",
        ),
        pytest.param(
            metered(is_running=False),
            {(ID, TODAY): 9},
            {(ID, MODEL, TODAY): Entered(5, 2, NOW - HOUR / 2)},
            YESTERDAY,
            [],
            id="no growth within an hour",
        ),
        pytest.param(
            metered(is_running=False),
            {(ID, TODAY): 3, (ID, YESTERDAY): 7},
            {},
            YESTERDAY,
            [(MODEL, YESTERDAY, 1, 7)],
            id="one entry a pass, the oldest day first",
        ),
        pytest.param(
            metered(since=TODAY, is_running=False), {(ID, YESTERDAY): 7}, {}, YESTERDAY, [], id="before it was paid for"
        ),
        pytest.param(
            metered(is_running=False),
            {(ID, TODAY): 3},
            {(ID, MODEL, TODAY): Entered(5, 1, NOW - 2 * HOUR)},
            YESTERDAY,
            [],
            id="a smaller sum than before",
        ),
    ],
)
def test_usage_that_the_ledger_lacks(
    instance: Metered,
    used: dict[tuple[InstanceId, date], int],
    entered: dict[tuple[InstanceId, Meter, date], Entered],
    begin: date,
    expected: list[tuple[Meter, date, int, int]],
) -> None:
    entries = new_entries([instance], used, entered, Meter, begin=begin, now=NOW)
    assert [(entry.meter, entry.day, entry.sequence, entry.quantity) for entry in entries] == expected
    assert {entry.measured_at for entry in entries} <= {datetime(2026, 11, 29, 12, 31, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("pending", "step"),
    [
        (row(), Send()),
        (row(tried_for=HOUR), Send()),
        (row(tried_for=19 * HOUR), Send()),
        (row(tried_for=20 * HOUR), Rest()),
        (row(tried_for=24 * HOUR), LookUp()),
        (row(age=timedelta(days=34)), Send()),
        (row(age=timedelta(days=35)), Refuse("Stripe takes usage of the last 35 days, and this is older")),
        (row(age=timedelta(days=40), tried_for=timedelta(days=30)), LookUp()),
    ],
)
def test_the_next_step_of_an_entry(pending: LedgerEntry, step: Step) -> None:
    assert next_step(pending, now=NOW) == step


def test_stripes_sum_of_the_minute_says_whether_an_event_arrived() -> None:
    entry = row(quantity=5).entry
    assert looked_up(entry, 5, now=NOW) is None
    assert looked_up(entry, 0, now=NOW) == Send()
    assert isinstance(looked_up(entry, 3, now=NOW), Refuse)
    assert isinstance(looked_up(row(age=timedelta(days=36)).entry, 0, now=NOW), Refuse)


def test_identifiers_name_one_entry_within_stripes_length() -> None:
    entry = Entry(ID, USER, "sub_1", MODEL, TODAY, 10**9, 1, NOW)
    assert entry.identifier == f"hermes-{ID}-model_micros-20261129-{10**9}"
    assert len(entry.identifier) <= 100


def test_sums_that_differ_are_named_and_those_with_an_unknown_entry_are_known_as_such() -> None:
    reported = LedgerEntry(row(quantity=2).entry, EntryState.REPORTED, "cus_1")
    ours, unknown = sums_of([reported, row(tried_for=HOUR)])
    assert ours == {("cus_1", DAYS, TODAY): 2}
    assert unknown == {("cus_1", DAYS, TODAY)}
    assert differences(ours, ours) == []
    assert differences(ours, {("cus_1", DAYS, TODAY): 3, ("cus_1", DAYS, YESTERDAY): 1}) == [
        "cus_1, instance_days of 2026-11-28: the ledger reported 0, Stripe has 1",
        "cus_1, instance_days of 2026-11-29: the ledger reported 2, Stripe has 3",
    ]
