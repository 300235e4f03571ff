"""Brings simulated agents to what many subscriptions ask for, with real operations, and compares them in the end."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice

from hermesops.app import Container
from hermesops.app.connected import Connected
from hermesops.errors import HermesError
from hermesops.model.billing.events import BillingState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import UserId
from hermesops.model.operation import Operation
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from tests.support.billing.lifecycles import ENDS, RESTS, RUNS, Expected, delivered, lifecycles
from tests.support.billing.stripe_events import Endpoint
from tests.support.real.commands.command import Command

AGAIN = 0.1
_AT_ONCE = 16
_ROUNDS = 40


@dataclass(frozen=True)
class Scale:
    """How much.

    Attributes:
        events: Without those that come twice.
        batches: Parts in which they come; agents are brought to what they ask for after each.
    """

    users: int
    events: int
    batches: int


@dataclass(frozen=True)
class Trial:
    """What came of it.

    Attributes:
        wrong: By user, what is not as it should be.
        states: Events by state.
        operations: By kind, how many were done.
    """

    wrong: dict[str, str]
    states: dict[BillingState, int]
    operations: dict[str, int]
    events: int
    deliveries: int
    seconds: float


def prepared(world: Command) -> tuple[Endpoint, Command]:
    """An endpoint whose secret a world knows, and the world with prices."""
    endpoint = Endpoint()
    keys = world.home / "local" / "keys"
    keys.mkdir(parents=True, exist_ok=True)
    (keys / "billing.secret").write_text(endpoint.secret)
    (keys / "billing.secret").chmod(0o600)
    prices = "price_light=light,price_heavy=heavy"
    return endpoint, world.with_variables(HERMESOPS_BILLING_PRICES=prices, HERMESOPS_GRACE_DAYS="7")


async def trial(world: Command, scale: Scale, seed: int) -> Trial:
    """Deliver everything, and wait until nothing waits any more."""
    endpoint, world = prepared(world)
    app = Container(Environment.load("local", world.environ), lambda _: None)
    lives = lifecycles(scale.users, scale.events, seed)
    events = delivered(lives, again=AGAIN, seed=seed)
    began, count = time.monotonic(), 0
    async with app.connect() as connected:
        size = -(-int(scale.events * (1 + AGAIN)) // scale.batches) + 1
        while batch := list(islice(events, size)):
            count += len(batch)
            for content in batch:
                app.registry.billing.receive(*endpoint.signed(content))
            await _done(connected, rounds=2)
        await _done(connected, rounds=_ROUNDS)
        wrong = {
            life.user: why
            for life in lives
            if (why := difference(app.registry.instances.of_user(UserId(life.user)), life.expected))
        }
        rows = app.registry.billing.list(limit=100_000)
        return Trial(
            wrong,
            app.registry.billing.count(),
            dict(Counter(operation.kind.value for operation in app.registry.operations.list(limit=100_000))),
            len(rows),
            count,
            time.monotonic() - began,
        )


async def _done(connected: Connected, *, rounds: int) -> None:
    """Decide, and do what was opened; until nothing waits, or so often."""
    registry = connected.container.registry
    for _ in range(rounds):
        await connected.jobs.bill_everybody()
        unfinished = registry.operations.unfinished()
        room = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(_run(connected, operation, room) for operation in unfinished))
        if not unfinished and not _waits(registry):
            return


def _waits(registry: Registry) -> bool:
    return bool(registry.billing.due_users(everybody=True))


async def _run(connected: Connected, operation: Operation, room: asyncio.Semaphore) -> None:
    async with room:
        try:
            await connected.operations.run(operation)
        except HermesError as error:
            # What cannot be done is a row's outcome, which the end is judged by.
            connected.container.report(error.message)


def difference(instance: Instance | None, expected: Expected) -> str:
    """What of an agent is not as it should be; empty for nothing."""
    status = instance.status if instance else None
    problem = f"{expected}, and there is {instance and (instance.status, instance.plan, instance.grace_until)}"
    match expected.how:
        case _ if expected.how == RUNS:
            right = instance is not None and status is InstanceStatus.RUNNING and instance.plan is expected.plan
        case _ if expected.how == RESTS:
            right = instance is None or (status is InstanceStatus.SUSPENDED and instance.grace_until is None)
        case _:
            right = instance is None or (status is InstanceStatus.SUSPENDED and instance.grace_until is not None)
            assert expected.how == ENDS
    return "" if right else problem
