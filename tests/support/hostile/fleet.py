"""A fleet of simulated agents, some of which somebody else has taken over: the agent alone, or root on its machine."""

import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hermesops.app import Container
from hermesops.localcloud.drivers.sim.agent import hostility
from hermesops.settings.environment import Environment
from hermesops.store.registry.schema import tables
from tests.support.hostile.agents.hostile_moods import ESCAPES, MOODS
from tests.support.hostile.agents.taken_over import check_text
from tests.support.hostile.http_service import hostile_service
from tests.support.real.commands.command import Command, Ran, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import vendor_of

QUICK = ("--soak", "1s", "--settle", "0s", "--vitals", "none", "--drill", "no", "--stages", "5%,25%,100%")
"""Of rollouts to such a fleet."""

AT_ONCE = ("--max-unavailable", "100%", "--stages", "20%,100%")

LIES: dict[str, Mapping[str, Any]] = {
    "root: no JSON": {"out": "all is well\n"},
    "root: a list": {"out": "[1]\n"},
    "root: deep": {"out": "[", "times": 200_000},
    "root: 1e400": {"out": '{"at": 1e400, "releases": {"current": 1e400}}\n'},
    "root: null everywhere": {"out": '{"identity": null, "releases": {"activation": [1], "last": 7}, "busy": "x"}\n'},
    "root: another's instance": {
        "out": json.dumps({"identity": {"instance_id": "00000000-0000-4000-8000-000000000000", "epoch": 99}}) + "\n"
    },
    "root: foreign hashes": {"words": ["release", "fetch"], "code": 7, "out": '{"missing": ["' + "0" * 64 + '"]}\n'},
    "root: 20 MB": {"out": "x" * 1024, "times": 20_480},
    "root: escapes": {"code": 4, "out": ESCAPES, "err": f"hermes-node: {ESCAPES}\n"},
    "root: exit 99": {"code": 99},
    "root: slow": {"out": "{}\n", "seconds": 3600},
}
"""What hermes-node does that lies, by mood; see ``sim.hostility.ROOT``."""

ALL_MOODS = (*MOODS, *LIES)
_A_DAY = timedelta(hours=25)


@dataclass(frozen=True)
class HostileFleet:
    """A world with agents in it.

    Attributes:
        good: Users whose agents are theirs.
        bad: Users whose agents are somebody else's, while a mood is on.
        machines: Ids by user.
    """

    world: Command
    good: tuple[str, ...]
    bad: tuple[str, ...]
    machines: dict[str, str] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def in_moods(self, *moods: str) -> AsyncIterator[None]:
        """Have each bad one be in the next of the moods until the context ends; the proxy and hermes-node get it."""
        async with vendor_of(self.world.home / "local" / "world") as vendor, contextlib.AsyncExitStack() as stack:
            for number, user in enumerate(self.bad):
                mood = moods[number % len(moods)]
                path, content = await _made(stack, mood)
                files = f"machines/{self.machines[user]}/toolbox/files"
                where = {"path": path, "mode": "644"}
                response = await vendor.post(f"{files}/upload", params=where, content=json.dumps(content))
                response.raise_for_status()
                stack.push_async_callback(vendor.delete, files, params={"path": path})
            yield

    def make_all_due(self) -> None:
        """Let backups and tokens be a day old, so that the next job is about every agent."""
        registry = Container(Environment.load("local", self.world.environ), lambda _: None).registry
        with registry._database.writing() as connection:
            for column in (tables.backups.c.at, tables.hermes_instances.c.created_at):
                key = column.table.c.id
                for row, at in connection.execute(sa.select(key, column)).all():
                    older = {column.name: at - _A_DAY}
                    connection.execute(column.table.update().where(key == row).values(older))
            soon = registry.now() + timedelta(minutes=5)
            connection.execute(tables.proxy_tokens.update().values(expires_at=soon))
            connection.execute(tables.instance_details.update().values(model_token_expires_at=soon))
        registry.close()

    def last_of(self, query: str) -> datetime | None:
        """The newest moment that a query of the registry gives for one of the good ones; it selects a user and that."""
        with closing(sqlite3.connect(self.world.home / "local" / "registry.db")) as registry:
            times = [at for user, at in registry.execute(query).fetchall() if user in self.good and at]
        return max((datetime.fromisoformat(at).replace(tzinfo=UTC) for at in times), default=None)

    async def learn_machines(self) -> None:
        """Look up where they are; a move changes it."""
        rows = (await self.world.ok("instance", "list", "--json")).json["instances"]
        users = {row["machine_name"]: row["user"] for row in rows}
        async with vendor_of(self.world.home / "local" / "world") as vendor:
            listed = (await vendor.get("machines")).json()
        machines = listed if isinstance(listed, list) else listed["machines"]
        self.machines.update(
            {users[machine["name"]]: machine["id"] for machine in machines if machine["name"] in users}
        )


async def _made(stack: contextlib.AsyncExitStack, mood: str) -> tuple[str, Mapping[str, Any]]:
    """The file by which a simulated machine is in a mood, and what it says."""
    if mood in LIES:
        return hostility.ROOT, LIES[mood]
    views = [await stack.enter_async_context(hostile_service(mood)) for _ in range(2)]
    return hostility.AGENT, dict(zip(("proxy", "node"), (view.port for view in views), strict=True))


@contextlib.asynccontextmanager
async def hostile_fleet(home: Path, *, good: int = 15, bad: int = 5) -> AsyncIterator[HostileFleet]:
    """A simulated world with that many agents in one cell, the bad ones between the good ones, all of them well yet."""
    async with local_world(home, driver="sim") as world:
        total = good + bad
        taken = {1 + number * total // bad for number in range(bad)}
        users = [f"{'bad' if number in taken else 'good'}-{number}" for number in range(total)]
        wanted = home / "users.csv"
        wanted.write_text("user,plan,region\n" + "".join(f"{user},light,\n" for user in users))
        await world.ok("provision", "--from", str(wanted))
        fleet = HostileFleet(world, _named(users, "good"), _named(users, "bad"))
        await fleet.learn_machines()
        yield fleet


def _named(users: Sequence[str], kind: str) -> tuple[str, ...]:
    return tuple(user for user in users if user.startswith(kind))


async def run(fleet: HostileFleet, *words: str, ends: set[int], names: bool = True) -> Ran:
    """Run a command that has to end so; where it did not do everything it names every bad one.

    A root that lies about one step of a rollout is given that step again for ``Spec.attempt_s``, ten minutes.
    """
    ran = await fleet.world.run(*words, timeout_s=1500)
    check_text(ran)
    assert ran.exit_code in ends, str(ran)
    if ran.exit_code and names:
        assert all(user in ran.stdout + ran.stderr for user in fleet.bad), str(ran)
    return ran


async def see_everything_done(fleet: HostileFleet, *moods: str) -> None:
    """Run jobs, looks and a rollout while each bad one is in a mood: all of it is done for the good ones.

    Raises:
        AssertionError: It is not, or a bad one is not named.
    """
    world, good = fleet.world, set(fleet.good)
    release = await built(world, f"release-{len(world.said)}")
    fleet.make_all_due()
    async with fleet.in_moods(*moods):
        for user in fleet.bad:
            await run(fleet, "instance", "show", user, ends={0, 4}, names=False)
        shown = await run(fleet, "instance", "show", fleet.good[0], "--json", ends={0})
        assert shown.json["instance"]["gateway"] == "ok"
        await run(fleet, "job", "run", "tokens", ends={0, 6}, names=False)
        await run(fleet, "job", "run", "backups", ends={0, 6}, names=False)
        await run(fleet, "fleet", "drift", "--deep", ends={0, 6, 7}, names=False)
        # Its narration shortens lists of names; below, fleet outdated has to name every bad one.
        ran = await run(fleet, "rollout", "start", release, "--all", *QUICK, *AT_ONCE, ends={6}, names=False)
        status = (await world.ok("rollout", "status", "--json")).json
        outdated = {
            row["user"]: row["why"]
            for row in (await run(fleet, "fleet", "outdated", "--json", ends={0})).json["outdated"]
        }
    reached = {target["user"] for target in status["targets"] if target["on_release"]}
    assert (status["rollout"]["state"], reached) == ("done", good), str(ran)
    assert outdated.keys() == set(fleet.bad), f"{outdated}\n{ran}"
    assert all("left unchanged: " in why for why in outdated.values()), outdated
    ages = {row["user"]: row["age_s"] for row in (await world.ok("backup", "list", "--json")).json["instances"]}
    assert all(ages[user] < _A_DAY.total_seconds() for user in good), ages
