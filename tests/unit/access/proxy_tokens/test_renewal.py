"""The platform's tokens: never two that count for long, never none, whoever is killed and whatever clocks say."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from hermesops.access.proxy_tokens.renewal import TokenRenewal, due_of, renew_each
from hermesops.errors import UnavailableError
from hermesops.model.access.token import PLATFORM, KeptToken, ProxyToken, former_of, next_of
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps.wire import ProxyToken as IssuedToken
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.registry import FakeRegistry

if TYPE_CHECKING:
    from hermesops.vendor.justavps.client import Client

MACHINE = MachineId("m-1")
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class World(FakeRegistry):
    """The vendor with its own clock, the edge, and the rows; each effect may be the last one of a process.

    Attributes:
        skew: How much our clock is ahead of the vendor's.
        death: Of the process.
    """

    at: datetime = START
    skew: timedelta = timedelta()
    issued: dict[str, datetime] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    rows: dict[str, ProxyToken] = field(default_factory=dict)
    death: Death = field(default_factory=Death)
    opening: bool = True
    away: bool = False
    lost: bool = False
    meanwhile: Callable[[], None] | None = None

    def counts(self) -> set[str]:
        """What the vendor would let in."""
        return {id_ for id_, until in self.issued.items() if until > self.at and id_ not in self.revoked}

    async def issue_proxy_token(self, machine_id: str, *, label: str, lifetime_s: int) -> IssuedToken:
        assert (machine_id, label) == (MACHINE, "hermesops-platform")
        id_ = f"id{len(self.issued) + 1}"
        self.issued[id_] = self.at + timedelta(seconds=lifetime_s)
        return IssuedToken(id=id_, token=f"token of {id_}", expires_at=self.issued[id_])

    async def revoke_proxy_token(self, token_id: str) -> None:
        self.death.point()
        if self.away:
            raise UnavailableError("no answer")
        self.revoked.append(token_id)
        self.death.point()

    async def opens(self, machine_id: MachineId, token: str) -> bool:
        assert machine_id == MACHINE
        self.death.point()
        return self.opening and token.removeprefix("token of ") in self.counts()

    async def address(self, machine_id: MachineId) -> str:
        assert machine_id == MACHINE
        if self.lost:
            raise UnavailableError("no answer")
        return "https://{port}--m-1.example.test"

    def proxy_tokens_get(self, machine_id: MachineId, purpose: str) -> ProxyToken | None:
        assert machine_id == MACHINE
        return self.rows.get(purpose)

    def proxy_tokens_keep_next(self, token: ProxyToken) -> None:
        self.rows[next_of(token.purpose)] = replace(token, purpose=next_of(token.purpose))
        self.death.point()

    def proxy_tokens_replace(self, fresh: ProxyToken, *, before: str) -> bool:
        self.death.point()
        if self.meanwhile:
            self.meanwhile()
        was = self.rows.get(fresh.purpose)
        if (was.id if was else "") != before:
            return False
        if was:
            self.rows[former_of(fresh.purpose)] = replace(was, purpose=former_of(fresh.purpose))
        self.rows[fresh.purpose] = fresh
        if self.rows.get(next_of(fresh.purpose), fresh).id == fresh.id:
            self.rows.pop(next_of(fresh.purpose), None)
        self.death.point()
        return True

    def proxy_tokens_forget(self, machine_id: MachineId, purpose: str, *, token_id: str = "") -> None:
        assert machine_id == MACHINE
        if purpose in self.rows and token_id in {"", self.rows[purpose].id}:
            del self.rows[purpose]
        self.death.point()

    def renewal(self) -> TokenRenewal:
        vendor = cast("Client", self)
        return TokenRenewal(vendor, self, self.opens, self.address, now=lambda: self.at + self.skew, edge_timeout_s=0)

    def due(self) -> bool:
        kept = [
            KeptToken(proxy_token.id, MACHINE, purpose, proxy_token.expires_at)
            for purpose, proxy_token in self.rows.items()
        ]
        due = due_of([MACHINE], [MACHINE], kept, self.at + self.skew)
        return bool(due.renew or due.drop)

    async def observe(self) -> None:
        """What the job does at one look."""
        kept = [
            KeptToken(proxy_token.id, MACHINE, purpose, proxy_token.expires_at)
            for purpose, proxy_token in self.rows.items()
        ]
        due = due_of([MACHINE], [MACHINE], kept, self.at + self.skew)
        for token in due.drop:
            await self.renewal().drop(token)
        for machine in due.renew:
            await self.renewal().renew(machine)


async def test_the_new_one_is_tried_before_it_is_published_and_the_old_one_revoked_after_that() -> None:
    world = World()
    await world.renewal().renew(MACHINE)
    world.at += 3 * HOUR
    await world.renewal().renew(MACHINE)
    assert (world.rows[PLATFORM].id, world.revoked) == ("id2", ["id1"])
    assert set(world.rows) == {PLATFORM}


async def test_one_that_does_not_open_the_proxy_is_revoked_and_the_old_one_stays() -> None:
    world = World()
    await world.renewal().renew(MACHINE)
    world.opening = False
    with pytest.raises(UnavailableError, match="refused by the proxy"):
        await world.renewal().renew(MACHINE)
    assert (world.rows[PLATFORM].id, world.counts()) == ("id1", {"id1"})
    assert set(world.rows) == {PLATFORM}


async def test_it_is_kept_with_the_address_that_it_opens_and_not_without() -> None:
    world = World()
    await world.renewal().renew(MACHINE)
    assert world.rows[PLATFORM].address == "https://{port}--m-1.example.test"
    world.lost = True
    with pytest.raises(UnavailableError, match="no answer"):
        await world.renewal().renew(MACHINE)
    assert (world.rows[PLATFORM].id, world.counts()) == ("id1", {"id1"})


async def test_of_two_at_once_from_two_computers_one_counts_and_the_other_one_is_revoked() -> None:
    world = World()
    await world.renewal().renew(MACHINE)

    def another() -> None:
        world.meanwhile = None
        world.issued["theirs"] = world.at + 6 * HOUR
        world.rows[PLATFORM] = ProxyToken("theirs", MACHINE, PLATFORM, world.at + 6 * HOUR, "token of theirs")
        world.revoked.append("id1")

    world.meanwhile = another
    assert (await world.renewal().renew(MACHINE)).id == "theirs"
    assert world.counts() == {"theirs"}
    assert set(world.rows) == {PLATFORM}


async def test_an_old_one_that_could_not_be_revoked_is_revoked_by_the_next_look() -> None:
    world = World()
    await world.renewal().renew(MACHINE)
    world.away = True
    await world.renewal().renew(MACHINE)
    assert world.rows[former_of(PLATFORM)].id == "id1"
    world.away = False
    await world.observe()
    assert world.counts() == {"id2"}


async def test_killed_anywhere_the_next_look_leaves_one_token_that_counts_and_is_published() -> None:
    whole = World()
    await whole.renewal().renew(MACHINE)
    before = whole.death.count
    await whole.renewal().renew(MACHINE)
    for dies_at in range(before + 1, whole.death.count + 1):
        world = World()
        await world.renewal().renew(MACHINE)
        world.at += 3 * HOUR
        world.death.at = dies_at
        with pytest.raises(KilledError):
            await world.renewal().renew(MACHINE)
        assert world.rows[PLATFORM].id in world.counts(), f"killed at {dies_at}: what is published opens nothing"
        world.death = Death()
        while world.due():
            await world.observe()
        assert {world.rows[PLATFORM].id} == world.counts(), f"killed at {dies_at}: a token was left"
        assert set(world.rows) == {PLATFORM}
        assert len(world.issued) == 2, f"killed at {dies_at}: more tokens than needed"


@pytest.mark.parametrize("minutes", [-2, 0, 2])
async def test_clocks_that_differ_by_two_minutes_do_no_harm(minutes: int) -> None:
    world = World(skew=timedelta(minutes=minutes))
    for _ in range(48 * 60):
        await world.observe()
        assert world.rows[PLATFORM].id in world.counts()
        assert len(world.counts()) == 1
        world.at += timedelta(minutes=1)
    assert 15 <= len(world.issued) <= 17  # twice half of six hours, for two days


async def test_two_hours_without_the_vendor_leave_the_platform_a_token_that_opens() -> None:
    world = World()
    await world.observe()
    world.at += 3 * HOUR
    world.opening = False
    for _ in range(24):
        with pytest.raises(UnavailableError, match="refused by the proxy"):
            await world.observe()
        world.at += timedelta(minutes=5)
    world.opening = True
    assert world.rows[PLATFORM].id in world.counts()
    await world.observe()
    assert world.counts() == {world.rows[PLATFORM].id}


def kept(purpose: str, *, machine: str = MACHINE, left: timedelta = 6 * HOUR) -> KeptToken:
    return KeptToken("id", MachineId(machine), purpose, START + left)


def test_a_token_is_renewed_at_half_its_life() -> None:
    assert due_of([MACHINE], [MACHINE], [], START).renew == (MACHINE,)
    assert due_of([MACHINE], [MACHINE], [kept(PLATFORM, left=3 * HOUR)], START).renew == (MACHINE,)
    assert due_of([MACHINE], [MACHINE], [kept(PLATFORM, left=3.1 * HOUR)], START).renew == ()


def test_tokens_of_agents_that_rest_and_of_machines_that_were_left_are_revoked() -> None:
    platform, health = kept(PLATFORM), kept("health")
    assert due_of([MACHINE], [MACHINE], [platform, health], START).drop == ()
    assert due_of([], [MACHINE], [platform, health], START).drop == (platform,)
    assert due_of([], [], [platform, health], START).drop == (platform, health)


async def test_one_machine_that_does_not_answer_keeps_no_other_from_a_token() -> None:
    done: list[MachineId] = []

    async def renew(machine: MachineId) -> None:
        if machine == "silent":
            raise UnavailableError("no answer")
        done.append(machine)

    machines = {MachineId("silent"): "ada", MachineId("well"): "bob"}
    assert await renew_each(machines, renew, at_once=1) == {"ada": "no answer", "bob": ""}
    assert done == ["well"]
