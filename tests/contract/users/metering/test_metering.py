"""Usage in the ledger and at the stand-in of Stripe, on either database: each unit once, whatever dies."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hermesops.model.billing.metering import EntryState, Meter
from hermesops.model.billing.model_usage import Usage
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger
from tests.support.billing.metered_days import WRITES, Day, metered_days
from tests.support.billing.plan_world import PlanWorld, plan_world
from tests.support.crash.death import Death, KilledError, Mortal
from tests.support.real.stores.registries import TurnedClock, registry_at

DAYS, MODEL = Meter.INSTANCE_DAYS, Meter.MODEL_MICROS
HOUR, DAY = 3600, 86_400


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: signatures and the library have this computer's clock."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC).replace(hour=10, minute=0, second=7, microsecond=0)
    return turned


@pytest.fixture
def database(registry: Registry, registry_url: str, clock: TurnedClock) -> Iterator[Database]:
    assert registry.actor
    database = Database(registry_url, clock=clock)
    yield database
    database.close()


@pytest.fixture
async def world(registry: Registry, database: Database, clock: TurnedClock) -> AsyncIterator[PlanWorld]:
    async with plan_world(registry, database, lambda: clock().timestamp()) as world:
        yield world


async def paying(world: PlanWorld) -> Instance:
    """The user's agent, running and paid."""
    await world.subscribed()
    await world.sweep().run()
    instance = world.registry.instances.of_user(world.user)
    assert instance is not None
    return world.registry.instances.set_status(instance.id, InstanceStatus.RUNNING, why="test")


def at_stripe(world: PlanWorld) -> dict[str, int]:
    """Sums of events by name."""
    sums: dict[str, int] = {}
    for event in world.stripe.books.meter_events.values():
        sums[event["event_name"]] = sums.get(event["event_name"], 0) + int(event["payload"]["value"])
    return sums


def used(world: PlanWorld, instance: Instance, day: datetime, micros: int) -> None:
    usage = Usage(instance.id, day.date(), "smart", "openai", "200", 1, 10, 10, micros)
    RouterLedger(str(world.database._url.render_as_string(hide_password=False))).write(uuid4().hex, [usage])


async def test_a_day_is_reported_once_and_models_as_they_are_used(world: PlanWorld, clock: TurnedClock) -> None:
    instance = await paying(world)
    metering = world.metering()
    used(world, instance, clock(), 120)
    assert metering.due() == ["2 usage events to add"]
    assert await metering.run() == {str(world.user): ""}
    assert at_stripe(world) == {"hermes_instance_days": 1, "hermes_model_micros": 120}
    assert metering.due() == []
    used(world, instance, clock(), 30)
    assert metering.due() == []
    clock.turn(HOUR + 60)
    await metering.run()
    assert at_stripe(world) == {"hermes_instance_days": 1, "hermes_model_micros": 150}
    clock.turn(DAY)
    await metering.run()
    assert at_stripe(world)["hermes_instance_days"] == 2
    sums = {
        each.meter: (each.quantity, each.reported)
        for each in world.registry.metering.sums(world.user, clock() - timedelta(days=3))
    }
    assert sums == {DAYS: (2, 2), MODEL: (150, 150)}


async def test_a_suspended_agent_costs_no_days(world: PlanWorld, clock: TurnedClock) -> None:
    instance = await paying(world)
    world.registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED, why="test")
    clock.turn(DAY)
    assert world.metering().due() == []


async def test_stripe_silent_for_an_hour_gets_everything_once(world: PlanWorld, clock: TurnedClock) -> None:
    await paying(world)
    there, world.stripe_url = world.stripe_url, "http://127.0.0.1:9"
    [problem] = (await world.metering().run()).values()
    assert "does not answer" in problem
    clock.turn(HOUR)
    assert world.metering().due() == ["1 usage event to report"]
    world.stripe_url = there
    for _ in range(2):
        await world.metering().run()
    assert at_stripe(world) == {"hermes_instance_days": 1}


async def test_a_lost_answer_is_no_second_event(world: PlanWorld, clock: TurnedClock) -> None:
    await paying(world)
    world.stripe.unanswered = 1
    [problem] = (await world.metering().run()).values()
    assert problem
    assert world.registry.metering.count() == {EntryState.PENDING: 1}
    clock.turn(HOUR)
    await world.metering().run()
    assert world.registry.metering.count() == {EntryState.REPORTED: 1}
    assert at_stripe(world) == {"hermes_instance_days": 1}


async def test_after_a_day_stripes_sum_says_whether_an_event_arrived(world: PlanWorld, clock: TurnedClock) -> None:
    """Stripe forgets identifiers then: to send again would count twice."""
    instance = await paying(world)
    world.stripe.unanswered = 1
    await world.metering().run()
    world.registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED, why="test")
    clock.turn(21 * HOUR)
    assert world.metering().due() == []
    clock.turn(4 * HOUR)
    await world.metering().run()
    assert world.registry.metering.count() == {EntryState.REPORTED: 1}
    assert at_stripe(world) == {"hermes_instance_days": 1}


async def test_an_event_that_never_arrived_is_sent_after_a_day(world: PlanWorld, clock: TurnedClock) -> None:
    instance = await paying(world)
    mortal: Any = Mortal(world.registry, Death.after(2), WRITES)
    with contextlib.suppress(KilledError):
        await world.metering(mortal).run()
    world.registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED, why="test")
    assert at_stripe(world) == {}
    clock.turn(25 * HOUR)
    await world.metering().run()
    assert at_stripe(world) == {"hermes_instance_days": 1}


async def test_usage_older_than_stripe_takes_is_given_up_by_name(world: PlanWorld, clock: TurnedClock) -> None:
    await paying(world)
    world.metering().add()
    clock.turn(36 * DAY)
    await world.metering().run()
    [row] = world.registry.metering.measured(clock() - timedelta(days=40), clock() - timedelta(days=30))
    assert (row.state, row.detail) == (
        EntryState.REFUSED,
        "Stripe takes usage of the last 35 days, and this is older",
    )


async def test_a_comparison_names_what_differs(world: PlanWorld, clock: TurnedClock) -> None:
    await paying(world)
    await world.metering().run()
    clock.turn(DAY)
    assert (await world.metering().compare()).differences == []
    [event] = world.stripe.books.meter_events.values()
    event["payload"]["value"] = "2"
    comparison = await world.metering().compare()
    assert comparison.customers == 1
    [line] = comparison.differences
    assert line.endswith("the ledger reported 1, Stripe has 2")


async def test_the_next_charge_has_lines_of_usage(world: PlanWorld, clock: TurnedClock) -> None:
    instance = await paying(world)
    used(world, instance, clock(), 20_000)
    await world.statements().run()
    await world.metering().run()
    clock.turn(2 * HOUR)
    used(world, instance, clock(), 10_000)
    await world.metering().run()
    assert world.statements().due() == [world.user]
    await world.statements().run()
    kept = world.plans.get(world.user)
    assert kept is not None
    assert kept.statement.period_begins_at is not None
    charge = kept.statement.next_charge
    assert charge is not None
    assert [(line.description, line.amount) for line in charge.lines] == [
        ("Hermes agent, plan light, one month", 2900),
        ("Days of the agent: 1", 10),
        ("Use of models: 30000", 3),
    ]
    assert charge.amount == 2913
    assert world.statements().due() == []


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_whoever_reports_may_die_at_each_write(world: PlanWorld, clock: TurnedClock, *, is_done: bool) -> None:
    instance = await paying(world)
    died = 0
    for step in range(1, 12):
        clock.turn(DAY)
        used(world, instance, clock(), 7)
        death = (Death.after if is_done else Death.before)(step)
        mortal: Any = Mortal(world.registry, death, WRITES)
        with contextlib.suppress(KilledError):
            await world.metering(mortal).run()
        died += death.is_dead
        clock.turn(61)
        await world.metering().run()
        assert at_stripe(world) == {"hermes_instance_days": step, "hermes_model_micros": 7 * step}, step
        if not death.is_dead:
            break
    assert died >= 5
    assert set(world.registry.metering.count()) == {EntryState.REPORTED}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metering")


DAYS_OF_AN_AGENT = st.lists(
    st.builds(
        Day,
        is_running=st.booleans(),
        micros=st.sampled_from([0, 1, 1_000]),
        dies_at=st.integers(0, 7),
        dies_after=st.booleans(),
        lost=st.integers(0, 2),
        silent_h=st.sampled_from([0, 1, 23, 26]),
    ),
    min_size=1,
    max_size=4,
)


@given(DAYS_OF_AN_AGENT)
@settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
async def test_stripes_sums_are_the_ledgers_over_generated_days(folder: Path, days: Sequence[Day]) -> None:
    clock = TurnedClock()
    clock.timestamp = datetime.now(UTC).replace(hour=1)
    url = f"sqlite:///{folder / uuid4().hex}.db"
    with contextlib.closing(registry_at(url, clock=clock)) as registry:
        trial = await metered_days(registry, url, clock, days)
    assert trial.at_stripe == trial.ledger == trial.generated
