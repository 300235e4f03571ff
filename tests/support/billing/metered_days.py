"""Generated days of agents, metered while workers die and Stripe's answers are lost: three sums that must be one."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from hermesops.model.billing.metering import Meter
from hermesops.model.billing.model_usage import Usage
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger
from tests.support.billing.plan_world import EVENT_NAMES, PlanWorld, plan_world
from tests.support.crash.death import Death, KilledError, Mortal
from tests.support.real.stores.registries import TurnedClock

WRITES = ("metering.enter", "metering.begin", "metering.end")
_AWAY = "http://127.0.0.1:9"
_DAY_S = 86_400

Sums = dict[Meter, int]


@dataclass(frozen=True)
class Day:
    """A day of an agent.

    Attributes:
        is_running: Whether it runs on it.
        micros: Its use of models, in two halves.
        dies_at: Number of the write at which the worker dies; ``dies_after`` it or before.
        lost: Answers of Stripe's that are lost.
        silent_h: Hours for which Stripe is away after the first try.
    """

    is_running: bool
    micros: int
    dies_at: int
    dies_after: bool
    lost: int
    silent_h: int


@dataclass(frozen=True)
class Trial:
    """Sums of what was generated, of the ledger, and of Stripe."""

    generated: Sums
    ledger: Sums
    at_stripe: Sums


async def metered_days(registry: Registry, url: str, clock: TurnedClock, days: Sequence[Day]) -> Trial:
    """Meter the days of one agent, one after the other."""
    begin, database = clock(), Database(url, clock=clock)
    generated = {Meter.INSTANCE_DAYS: 0, Meter.MODEL_MICROS: 0}
    with contextlib.closing(database):
        async with plan_world(registry, database, lambda: clock().timestamp()) as world:
            await world.subscribed()
            await world.sweep().run()
            instance = registry.instances.of_user(world.user)
            assert instance is not None
            for day in days:
                clock.timestamp = (clock() + timedelta(days=1)).replace(hour=1)
                status = InstanceStatus.RUNNING if day.is_running else InstanceStatus.SUSPENDED
                registry.instances.set_status(instance.id, status, why="test")
                generated[Meter.INSTANCE_DAYS] += day.is_running
                generated[Meter.MODEL_MICROS] += day.micros
                for micros in (day.micros // 2, day.micros - day.micros // 2):
                    usage = Usage(instance.id, clock().date(), "smart", "openai", "200", 1, 1, 1, micros)
                    RouterLedger(url).write(uuid4().hex, [usage])
                    await _metered(world, registry, day)
                    clock.turn(61 * 60)
                await _silent(world, registry, clock, day, instance.id)
            for _ in range(3):  # what is not known is known after a day
                clock.turn(_DAY_S + 3600)
                registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED, why="test")
                await world.metering().run()
            ledger = {each.meter: each.reported for each in registry.metering.sums(world.user, begin)}
            return Trial(generated, {meter: ledger.get(meter, 0) for meter in Meter}, _at_stripe(world))


async def _metered(world: PlanWorld, registry: Registry, day: Day) -> None:
    """Let a worker meter, which may die; answers may be lost."""
    world.stripe.unanswered = day.lost
    death = (Death.after if day.dies_after else Death.before)(day.dies_at)
    mortal: Any = Mortal(registry, death, WRITES)
    with contextlib.suppress(KilledError):
        await world.metering(mortal).run()
    world.stripe.unanswered = 0


async def _silent(world: PlanWorld, registry: Registry, clock: TurnedClock, day: Day, instance_id: InstanceId) -> None:
    there, world.stripe_url = world.stripe_url, _AWAY if day.silent_h else world.stripe_url
    await world.metering().run()
    registry.instances.set_status(instance_id, InstanceStatus.SUSPENDED, why="the silence may last into the next day")
    clock.turn(day.silent_h * 3600)
    world.stripe_url = there
    await world.metering().run()


def _at_stripe(world: PlanWorld) -> Sums:
    counts = {name: meter for meter, name in EVENT_NAMES.items()}
    sums: Sums = dict.fromkeys(Meter, 0)
    for event in world.stripe.books.meter_events.values():
        sums[counts[event["event_name"]]] += int(event["payload"]["value"])
    return sums
