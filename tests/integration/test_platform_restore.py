"""A platform's database is lost with its machine, and restored from the object store onto another one.

The registry of a simulated world is in it. The second machine has the object store, and gets the database; it also
stands for a machine of an agent, that obeys who has the highest fencing token.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest

from hermesops.app import Container
from hermesops.base.waiting import pause
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.programs.node import build
from hermesops.settings.environment import Environment
from hermesops.wire.protocol import FencingToken
from tests.support.real.commands.command import Command, local_world
from tests.support.real.counted_link import counted_link
from tests.support.real.stores.platform_stores import OBJECT_STORE, PORTS, POSTGRESQL, TLS, StoresHost, stores_host
from tests.support.runbooks.executions import mended
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.converged import converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

FORWARD = 18080
"""The one port of this computer that these machines may reach."""

WRITES_EVERY_S = 0.2
WRITES_S = 20.0
MOST_LOST_S = 5.0

_KILL = """
mkdir -p /run/systemd/system/hermes-platform-postgresql.service.d
printf '[Service]\\nRestart=no\\n' >/run/systemd/system/hermes-platform-postgresql.service.d/test.conf
systemctl daemon-reload
pkill -KILL -u postgres
"""


@dataclass
class Writer:
    """Writes a row again and again.

    Attributes:
        taken: When each row was known to be committed, by its number.
    """

    url: str
    taken: dict[int, float] = field(default_factory=dict)

    async def write(self) -> None:
        """Write until the server is gone."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS writes (n int PRIMARY KEY, at timestamptz NOT NULL)")
            with contextlib.suppress(psycopg.OperationalError):
                for number in count(1):
                    await connection.execute("INSERT INTO writes VALUES (%s, clock_timestamp())", (number,))
                    self.taken[number] = time.time()
                    await pause(WRITES_EVERY_S)


@dataclass
class Lost:
    """What was there before the machine was lost, and what is there to restore it."""

    second: StoresHost
    command: Command
    writer: Writer
    killed_at: float
    old_lease: str
    instances: list[Any]
    variables: dict[str, object]

    def rows(self) -> dict[int, float]:
        """The rows of the restored database: when each was written, by its number."""
        with psycopg.connect(self.second.database_url(self.second.client("hermesops"), driver="")) as connection:
            rows = connection.execute("SELECT n, extract(epoch FROM at)::float FROM writes").fetchall()
            return dict(rows)


def without_age(instance: dict[str, Any]) -> dict[str, Any]:
    """An instance as listed, without what grows from list to list."""
    return {name: value for name, value in instance.items() if name != "age_s"}


@pytest.fixture(scope="module")
async def lost(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lost]:
    require(os.geteuid() == 0, "root")
    async with converged_world(for_platform=True) as world, stores_host(world) as first, stores_host(world) as second:
        stored = await second.apply((TLS, OBJECT_STORE))
        assert stored.status == "done", stored.failure
        access, secret = await second.key_of("postgresql")
        bucket = {"bucket": "postgresql", "bucket_access_key": access, "bucket_secret_key": secret}
        gateway = str(world.driver.gateway)
        with counted_link(second.address, PORTS[OBJECT_STORE], listen=(gateway, FORWARD)):
            there = {"bucket_address": gateway, "bucket_port": FORWARD}
            host_result = await first.apply((TLS, POSTGRESQL), prefixed({**bucket, **there}))
            assert host_result.status == "done", host_result.failure
            kept = await first.run("cat /etc/hermes-platform/secrets/pgbackrest/repository.conf")
            [cipher] = [line.partition("=")[2] for line in kept.splitlines() if "cipher-pass" in line]
            url = first.database_url(first.client("hermesops"))
            home = tmp_path_factory.mktemp("restored")
            variables = {"HERMESOPS_REGISTRY_URL": url}
            async with local_world(home, driver="sim", image=False, variables=variables) as command:
                await command.ok("registry", "migrate")
                await command.ok("image", "build")
                await command.ok("provision", "ada", "--plan", "light")
                instances = (await command.ok("instance", "list", "--json")).json["instances"]
                lease = lease_of(command, instances[0]["instance_id"], url)
                writer = Writer(first.database_url(first.client("hermesops"), driver=""))
                writing = asyncio.create_task(writer.write())
                await pause(WRITES_S)
                await world.channel(first.machine_id).run(_KILL, timeout_s=60)
                await writing
                killed_at = time.time()
                await world.client.delete_machine(first.machine_id)
                given = prefixed({**bucket, "cipher_key": cipher})
                yield Lost(second, command, writer, killed_at, lease, instances, given)


def prefixed(variables: Mapping[str, object]) -> dict[str, object]:
    return {f"{POSTGRESQL}_{name}": value for name, value in variables.items()}


def lease_of(command: Command, instance: str, url: str) -> str:
    """A lease that somebody takes of an instance, as machines see it; it is given back at once."""
    container = Container(Environment.load("local", {**command.environ, "HERMESOPS_REGISTRY_URL": url}), lambda _: None)
    leases = container.registry.leases
    lease = leases.take(instance_subject(InstanceId(instance)), "tester")
    leases.release(lease)
    return str(FencingToken(lease.subject, lease.epoch, lease.counter, lease.holder))


async def test_the_newest_state_is_back_but_for_the_last_seconds(
    lost: Lost, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    restored = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed({"restore_to": "latest"})})
    assert restored.status == "done", restored.failure
    rows = lost.rows()
    assert sorted(rows) == list(range(1, len(rows) + 1)), "a row is missing in between"
    gone = {number: at for number, at in lost.writer.taken.items() if number not in rows}
    lost_s = lost.killed_at - min(gone.values(), default=lost.killed_at)
    with capsys.disabled():
        print(  # noqa: T201 - a measurement is for who runs it
            f"\nof {len(lost.writer.taken)} writes the last {len(gone)} are lost, {lost_s:.1f} s; "
            f"restored in {time.monotonic() - begun:.0f} s"
        )
    assert len(lost.writer.taken) > WRITES_S / WRITES_EVERY_S / 3
    assert lost_s <= MOST_LOST_S


async def test_the_registry_goes_on_with_a_new_epoch_that_machines_follow(lost: Lost) -> None:
    url = lost.second.database_url(lost.second.client("hermesops"))
    command = lost.command.with_variables(HERMESOPS_REGISTRY_URL=url)
    repairs = await mended(command, "platform-database-restored")
    assert repairs["restored"] == "done"
    instances = (await command.ok("instance", "list", "--json")).json["instances"]
    assert [without_age(each) for each in instances] == [without_age(each) for each in lost.instances]
    await command.ok("instance", "restart", "ada")

    instance = lost.instances[0]["instance_id"]
    new_lease = lease_of(command, instance, url)
    old, new = FencingToken.parse(lost.old_lease), FencingToken.parse(new_lease)
    assert (old.subject, old.epoch + 1) == (new.subject, new.epoch)
    program = lost.second.world.folder / "hermes-node"
    build.write(program)
    await lost.second.world.channel(lost.second.machine_id).put(
        "/usr/local/bin/hermes-node", program.read_bytes(), mode=0o755
    )
    await lost.second.run("install -d -m 0700 /etc/hermes-node")
    await lost.second.run(f"hermes-node admit --lease {lost.old_lease}")
    await lost.second.run(f"hermes-node admit --lease {new_lease}")
    assert "taken over" in await lost.second.fails(f"hermes-node admit --lease {lost.old_lease}")


async def test_another_moment_is_refused_on_a_host_that_has_a_database(lost: Lost) -> None:
    restored = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed({"restore_to": "latest"})})
    assert (restored.status, restored.changed) == ("done", ())
    other = {"restore_to": "2026-01-01 00:00:00+00"}
    refused = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed(other)})
    assert refused.failure
    assert "has a database, restored to latest" in refused.failure.message
    vague = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed({"restore_to": "yesterday"})})
    assert vague.failure
    assert "is yesterday; it needs the form" in vague.failure.message
    another = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed({"cipher_key": "another"})})
    assert another.status == "failed"


async def test_any_moment_is_restored_to_what_was_committed_before(lost: Lost) -> None:
    middle = max(lost.rows()) // 2
    at = lost.rows()[middle] + WRITES_EVERY_S / 2
    moment = datetime.fromtimestamp(at, UTC).isoformat(sep=" ")
    away = "systemctl stop hermes-platform-postgresql.service && mv /var/lib/hermes-platform/postgresql /root/"
    await lost.second.run(away)
    restored = await lost.second.apply((POSTGRESQL,), {**lost.variables, **prefixed({"restore_to": moment})})
    assert restored.status == "done", restored.failure
    assert sorted(lost.rows()) == list(range(1, middle + 1))
