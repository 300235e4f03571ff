"""A process dies at each write and each call of the vendor: the agent keeps no access, and nothing is left behind."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hermesops.model.connections.connection import ConnectionState
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.users.connections.decide import LINK, accounts_for_agent
from hermesops.users.connections.service import Connections, StaleLinkError
from hermesops.users.connections.upkeep import ConnectionUpkeep
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, users_api

pytestmark = pytest.mark.turns(20)

WRITES = {"begin", "got_link", "take", "move", "seen", "cleaned", "drop", "disconnect", "keep_session"}
CALLS = {"link", "revoke", "delete", "end_session"}
MOST = 40


class _DeathError(BaseException):
    """The process is dead: no handler of an error runs."""


class Life:
    """Ends at a step, before or after it is done."""

    def __init__(self, left: int, *, is_done: bool) -> None:
        self.left = left
        self._is_done = is_done

    def dies(self, *, is_done: bool) -> None:
        if not is_done:
            self.left -= 1
        if self.left < 0 or (self.left == 0 and is_done is self._is_done):
            raise _DeathError


class Mortal:
    """Rows of a process, or its vendor."""

    def __init__(self, parts: Any, life: Life) -> None:  # noqa: ANN401 - stands for either
        self._parts = parts
        self._life = life

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        method = getattr(self._parts, name)
        if name in WRITES:

            def write(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
                self._life.dies(is_done=False)
                result = method(*arguments, **options)
                self._life.dies(is_done=True)
                return result

            return write
        if name in CALLS:

            async def call(*arguments: Any) -> Any:  # noqa: ANN401 - as above
                self._life.dies(is_done=False)
                result = await method(*arguments)
                self._life.dies(is_done=True)
                return result

            return call
        return method


@pytest.fixture
async def api(tmp_path: Path, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, f"sqlite:///{tmp_path}/registry.db", clock) as api:
        yield api


def process(api: UsersApi, life: Life) -> Connections:
    accounts, vendor = UserAccounts(api.connection_rows), Mortal(api.vendor, life)
    rows: Any = Mortal(UserConnections(api.connection_rows), life)
    accesses: Any = Mortal(McpAccesses(api.connection_rows), life)
    named: Any = vendor
    upkeep = ConnectionUpkeep(accounts, rows, accesses, named)
    return Connections(accounts, rows, upkeep, named, {"gmail": "ac_gmail"}, "https://pages.test/callback")


async def settled(api: UsersApi) -> list[ConnectionState]:
    """The states once another process has followed."""
    for _ in range(3):
        api.relay.clock.turn(LINK.total_seconds() + 1)
        await api.upkeep.run()
    return [row.state for row in UserConnections(api.connection_rows).of_user(api.ada.user_id)]


async def connects(api: UsersApi, service: Connections, *, session: str = "cookie") -> None:
    url = await service.begin(api.ada.user_id, "gmail", "cookie")
    back = api.composio.agree(url)
    await service.come_back(api.ada.user_id, session, back.partition("?")[0].rpartition("/")[2])


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_process_that_dies_while_a_service_is_connected_leaves_one_account_or_none(
    api: UsersApi, *, is_done: bool
) -> None:
    for step in count(1):
        try:
            await connects(api, process(api, Life(step, is_done=is_done)))
            break
        except _DeathError:
            states = await settled(api)
        assert states in ([], [ConnectionState.LINKED]), step
        assert len(api.composio.accounts) == len(states), step
    assert 4 < step < MOST


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_process_that_dies_while_a_service_is_disconnected_leaves_no_access_and_then_nothing(
    api: UsersApi, *, is_done: bool
) -> None:
    for step in count(1):
        await connects(api, process(api, Life(MOST * 9, is_done=True)))
        assert await settled(api) == [ConnectionState.LINKED]
        [account] = api.composio.accounts
        dies = False
        try:
            await process(api, Life(step, is_done=is_done)).disconnect(api.ada.user_id, "gmail")
        except _DeathError:
            dies = True
        rows = UserConnections(api.connection_rows)
        if step > 1 or is_done:
            assert not accounts_for_agent(rows.of_instance(api.ada.id)), step
            assert await settled(api) == [], step
            assert not api.composio.accounts, step
            assert account in api.composio.revoked, step
        if not dies:
            break
    assert 4 < step < MOST


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_process_that_dies_while_another_browser_comes_back_gives_that_account_to_nobody(
    api: UsersApi, *, is_done: bool
) -> None:
    for step in count(1):
        try:
            await connects(api, process(api, Life(step, is_done=is_done)), session="another")
        except StaleLinkError:
            break
        except _DeathError:
            pass
        assert await settled(api) == [], step
        assert not api.composio.accounts, step
    assert 4 < step < MOST
