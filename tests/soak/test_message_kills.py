"""Updates of Telegram, each sent up to four times and out of order, while connector, database and gateways are killed.

``HERMESOPS_TEST_SEED`` repeats a run's kills; ``HERMESOPS_TEST_KILLS`` and ``HERMESOPS_TEST_UPDATES`` bound it.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette

from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.errors import HermesError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.gateways import Gateways
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.messaging_tables import incoming_messages, outgoing_messages
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.users.messaging.relay_secrets import derive
from tests.support.crash.random_kills import SEED_VARIABLE, chosen
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require
from tests.support.users.api import served
from tests.support.users.kills.connector_process import KEY
from tests.support.users.kills.parts import Postgres, free_port
from tests.support.users.kills.scripted_agents import AgentApis, ScriptedAgent
from tests.support.users.messaging import Messaging, messaging

pytestmark = [pytest.mark.postgres, pytest.mark.turns(900), pytest.mark.timeout(3600)]

CHATS, KILLS, UPDATES = 50, 200, 10_000
_FIRST_PERSON = 1000
_EVERY_S = 3.0
_DRAINED_S = 900.0


class ConnectorProcess:
    """The connector's process."""

    def __init__(self, facts: dict[str, object], log: Path) -> None:
        self._facts, self._log = facts, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None or self._process.returncode is not None:
            words = [sys.executable, "-m", "tests.support.users.kills.connector_process", json.dumps(self._facts)]
            with self._log.open("ab") as output:
                self._process = await asyncio.create_subprocess_exec(*words, stdout=output, stderr=output)

    async def kill(self) -> None:
        """Kill it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def sent(world: Messaging, bodies: Sequence[bytes], draw: random.Random, within_s: float) -> None:
    """Have Telegram send each update one to four times, out of order, until each of these was taken."""
    copies = [body for body in bodies for _ in range(draw.randint(1, 4))]
    draw.shuffle(copies)
    for body in copies:
        while True:
            try:
                await asyncio.to_thread(world.door.take, body, "hook")
                break
            except HermesError:
                await pause(0.5)  # as Telegram, which was not answered with success
        await pause(within_s / len(copies))


async def kept_up(connector: ConnectorProcess) -> None:
    """Start the connector again where it ended by itself, as its unit does."""
    while True:
        await connector.start()
        await pause(1)


async def test_whatever_dies_each_message_has_one_turn_and_its_answer(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    seed = int(chosen(SEED_VARIABLE, random.SystemRandom().randrange(2**32)))
    kills, updates = int(chosen("HERMESOPS_TEST_KILLS", KILLS)), int(chosen("HERMESOPS_TEST_UPDATES", UPDATES))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - whoever repeats the run needs it
    draw, port = random.Random(seed), free_port()  # noqa: S311 - a choice of kills
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgresql.running())
        url = server.new_registry()
        registry = stack.enter_context(closing(registry_at(url)))
        database = stack.enter_context(closing(Database(url)))
        world = await stack.enter_async_context(messaging(database))
        agents = [linked(registry, world, number, port, draw) for number in range(CHATS)]
        apis = Starlette(routes=AgentApis({agent.instance.id: agent for agent in agents}).routes())
        agents_url = await stack.enter_async_context(served(apis))
        facts = {"registry": url, "telegram": world.telegram_url, "token": world.telegram.token, "port": port}
        connector, store = ConnectorProcess({**facts, "agents": agents_url}, tmp_path / "log"), Postgres(server)
        for agent in agents:
            agent.start()
        keeping = asyncio.ensure_future(kept_up(connector))
        stack.push_async_callback(connector.kill)
        stack.push_async_callback(cancel, keeping)
        texts = [(_FIRST_PERSON + number % CHATS, f"m{number}") for number in range(updates)]
        bodies = [json.dumps(world.telegram.message(person, text)).encode() for person, text in texts]
        sending = asyncio.ensure_future(sent(world, bodies, draw, kills * _EVERY_S))
        killed = await killed_at_random(kills, draw, connector, store, agents)
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


async def killed_at_random(
    kills: int, draw: random.Random, connector: ConnectorProcess, store: Postgres, agents: Sequence[ScriptedAgent]
) -> Counter[str]:
    """Kill one of the parts, each few seconds; returns how often each."""
    killed: Counter[str] = Counter()
    for _ in range(kills):
        await pause(draw.uniform(0.5, 2 * _EVERY_S - 1.5))
        kind = draw.choice(["connector", "database", "gateways"])
        killed[kind] += 1
        chosen_agents = draw.sample(list(agents), len(agents) // 5)
        if kind == "connector":
            await connector.kill()  # what keeps it starts it again
        elif kind == "database":
            await store.kill()
            await pause(draw.uniform(0, 1))
            await store.start()
        else:
            for agent in chosen_agents:
                await agent.kill()
            await pause(draw.uniform(0, 1))
            for agent in chosen_agents:
                agent.start()
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
