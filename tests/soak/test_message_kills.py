"""Updates of Telegram, each sent up to four times and out of order, while all processes between are killed.

``HERMESOPS_TEST_SEED`` repeats a run's kills; ``HERMESOPS_TEST_KILLS`` and ``HERMESOPS_TEST_UPDATES`` bound it.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette

from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.gateways import Gateways
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.messaging_tables import incoming_messages, outgoing_messages
from hermesops.store.registry.schema.role_grants import API
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.users.messaging.relay_secrets import derive
from tests.support.crash.random_kills import SEED_VARIABLE, chosen
from tests.support.real.commands.command import Command
from tests.support.real.ends_with_us import KILLED
from tests.support.real.stores import postgresql
from tests.support.real.stores.postgresql import make_role
from tests.support.real.stores.redis_server import redis_server
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.kills.connector_process import HOST, KEY
from tests.support.users.kills.parts import Part, Postgres, Program, Redis, free_port, kinds_of
from tests.support.users.kills.parts import running as running_programs
from tests.support.users.kills.report_doors import ReportDoors, report_doors
from tests.support.users.kills.scripted_agents import AgentApis, ScriptedAgent
from tests.support.users.messaging import Messaging, messaging

pytestmark = [pytest.mark.postgres, pytest.mark.turns(900), pytest.mark.timeout(3600)]

CHATS, KILLS, UPDATES = 50, 200, 10_000
_ROOT = Path(__file__).resolve().parents[2]
_FIRST_PERSON = 1000
_AT_ONCE = 20
_EVERY_S = 3.0
_DRAINED_S = 900.0


@dataclass(frozen=True)
class SomeGateways:
    """A fifth of the agents' gateways, others each time."""

    agents: Sequence[ScriptedAgent]
    draw: random.Random
    name: str = "gateways"

    async def start(self) -> None:
        """Start those that are dead."""
        for agent in self.agents:
            agent.start()

    async def kill(self) -> None:
        """Kill them."""
        for agent in self.draw.sample(list(self.agents), len(self.agents) // 5):
            await agent.kill()

    async def hang(self) -> None:
        """They do not hang here."""

    async def wake(self) -> None:
        """As ``hang``."""


async def sent(doors: ReportDoors, bodies: Sequence[bytes], draw: random.Random, within_s: float) -> None:
    """Have Telegram send each update one to four times, out of order, some at once, until each of these was taken."""
    copies = [body for body in bodies for _ in range(draw.randint(1, 4))]
    draw.shuffle(copies)
    waiting: set[asyncio.Future[None]] = set()
    try:
        for body in copies:
            waiting.add(asyncio.ensure_future(doors.take(body)))
            if len(waiting) >= _AT_ONCE:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*done)
            await pause(within_s / len(copies))
        await asyncio.gather(*waiting)
    finally:
        await cancel(*waiting)


async def test_whatever_dies_each_message_has_one_turn_and_its_answer(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    seed = int(chosen(SEED_VARIABLE, random.SystemRandom().randrange(2**32)))
    kills, updates = int(chosen("HERMESOPS_TEST_KILLS", KILLS)), int(chosen("HERMESOPS_TEST_UPDATES", UPDATES))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - whoever repeats the run needs it
    draw, port = random.Random(seed), free_port()  # noqa: S311 - a choice of kills
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgresql.running())
        url = server.new_database()
        make_role(url, API)  # before the tables, whose making gives it its rights
        registry = stack.enter_context(closing(registry_at(url)))
        database = stack.enter_context(closing(Database(url)))
        world = await stack.enter_async_context(messaging(database))
        agents = [linked(registry, world, number, port, draw) for number in range(CHATS)]
        apis = Starlette(routes=AgentApis({agent.instance.id: agent for agent in agents}).routes())
        agents_url = await stack.enter_async_context(served(apis))
        facts = {"registry": url, "telegram": world.telegram_url, "token": world.telegram.token, "port": port}
        redis_port = free_port()
        redis = Redis(stack.enter_context(redis_server(tmp_path, redis_port)))
        facts |= {"agents": agents_url, "redis": f"redis://{HOST}:{redis_port}"}
        connector = connector_program(tmp_path, facts)
        for agent in agents:
            agent.start()
        doors = await stack.enter_async_context(report_doors(tmp_path, url, redis_port))
        await stack.enter_async_context(running_programs([connector]))
        parts: list[Part] = [connector, SomeGateways(agents, draw), Postgres(server), redis, *doors.programs]
        texts = [(_FIRST_PERSON + number % CHATS, f"m{number}") for number in range(updates)]
        bodies = [json.dumps(world.telegram.message(person, text)).encode() for person, text in texts]
        sending = asyncio.ensure_future(sent(doors, bodies, draw, kills * _EVERY_S))
        killed = await killed_at_random(kills, draw, parts)
        await sending
        await until(lambda: drained(database, updates), what="the last answer", timeout_s=_DRAINED_S, every_s=2)
        uncertain = await asyncio.to_thread(tried_again, database)
        for agent in agents:
            await agent.kill()
    counts = Counter((person, text) for person in world.telegram.chats for text in world.telegram.chat(person).texts)
    lost = [text for person, text in texts if not counts[person, f"re {text}"]]
    doubled = {text: number for agent in agents for text, number in agent.begun.items() if number > 1}
    repeats = sum(number - 1 for number in counts.values())
    print(f"{updates} updates, kills {dict(killed)}: {len(lost)} lost, {len(doubled)} double turns, {repeats} repeats")  # noqa: T201
    assert not lost, lost[:20]
    assert not doubled, doubled
    assert sum(agent.begun.total() for agent in agents) == updates
    assert repeats <= uncertain, f"{repeats} repeats of {uncertain} uncertain sends"


def connector_program(folder: Path, facts: Mapping[str, object]) -> Program:
    """The connector's process, started again whenever it ends."""
    words = ("-m", "tests.support.users.kills.connector_process", json.dumps(facts))
    command = Command(folder / "connector", {"PYTHONPATH": str(_ROOT)}, (*KILLED, sys.executable))
    return Program("connector", command, words, folder / "connector.log", int(str(facts["port"])))


def linked(registry: Registry, world: Messaging, number: int, port: int, draw: random.Random) -> ScriptedAgent:
    """An agent whose user has linked an account."""
    instance, person = placed(registry, f"user-{number}"), _FIRST_PERSON + number
    running(world.database, instance)
    world.telegram.chat(person)
    code = world.accounts.add_code(instance.user_id)
    world.accounts.link(code, Messenger.TELEGRAM, str(person), str(person), "Ada")
    secret = derive(KEY.encode(), instance.id, Gateways(world.database).generations(instance.id)[-1])
    return ScriptedAgent(instance, secret, port, random.Random(draw.random()))  # noqa: S311 - pauses


def running(database: Database, instance: Instance) -> None:
    with database.writing() as connection:
        is_it = hermes_instances.c.id == instance.id
        connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.RUNNING))


async def killed_at_random(kills: int, draw: random.Random, parts: Sequence[Part]) -> Counter[str]:
    """Kill a part of a kind, each few seconds, and start it again; returns how often each kind."""
    killed: Counter[str] = Counter()
    kinds = kinds_of(parts)
    for _ in range(kills):
        await pause(draw.uniform(0.5, 2 * _EVERY_S - 1.5))
        kind = draw.choice(sorted(kinds))
        part = draw.choice(kinds[kind])
        killed[kind] += 1
        await part.kill()
        await pause(draw.uniform(0, 1))
        await part.start()
    return killed


async def drained(database: Database, updates: int) -> bool | Pending[bool]:
    """Whether all messages have ended, and all answers with them."""

    def look() -> dict[str, int]:
        with database.reading() as connection:
            counts: dict[str, int] = {}
            for table in (incoming_messages, outgoing_messages):
                query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
                counts |= {f"{table.name} {row[0]}": int(row[1]) for row in connection.execute(query)}
            return counts

    counts = await asyncio.to_thread(look)
    open_ = {
        name: number
        for name, number in counts.items()
        if name.split()[1] not in {"answered", "sent", "dead"} or name == "incoming_messages sent"
    }
    ended = sum(counts.get(f"incoming_messages {state}", 0) for state in ("answered", "dead"))
    return (not open_ and ended == updates) or Pending(str(counts))


def tried_again(database: Database) -> int:
    """How often a part was sent again."""
    with database.reading() as connection:
        query = sa.select(sa.func.coalesce(sa.func.sum(outgoing_messages.c.tries - 1), 0))
        return int(connection.scalar(query.where(outgoing_messages.c.tries > 1)) or 0)
