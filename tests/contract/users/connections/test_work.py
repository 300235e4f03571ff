"""What follows a connection: its record, and the agent's way to it; each step safe to repeat, at any death between."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.model.connections.connection import ConnectionState
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import InstanceId, UserId, instance_subject
from hermesops.model.operation import Operation, OperationKind
from hermesops.store.user_rows.connection_records import ConnectionRecords
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.users.connections.agent_access import SERVER, AgentAccess, Patch, entry_for, patch_to, token_in
from hermesops.users.connections.decide import LINK
from hermesops.users.connections.records import ConnectionRecording
from hermesops.users.connections.work import ConnectionWork
from hermesops.wire.settings import Settings
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, users_api

URL = "https://pages.test/mcp"


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


class Configuring:
    """Writes settings as the operation's opening does; refuses when told to."""

    def __init__(self, api: UsersApi) -> None:
        self._api = api
        self.is_busy = False
        self.whys: list[str] = []

    async def begin(self, user_id: str, patch: Patch, why: str) -> Operation:
        if self.is_busy:
            raise RefusedError("something is under way")
        registry = self._api.relay.registry
        instance = registry.instances.find(UserId(user_id))
        settings = patch(registry.instance_secrets.settings(instance.id))
        self.whys.append(why)
        subject = instance_subject(instance.id)
        operation = registry.settings_changes.change(instance.id, settings, subject=subject, intent={}, why=why)
        assert operation.kind is OperationKind.CONFIGURE
        return operation


def work_of(api: UsersApi, configuring: Configuring) -> ConnectionWork:
    registry, rows, accesses = api.relay.registry, UserConnections(api.all_rows), McpAccesses(api.all_rows)
    recording = ConnectionRecording(registry, ConnectionRecords(api.all_rows), api.vendor)
    return ConnectionWork(api.upkeep, recording, AgentAccess(registry, rows, accesses, URL, configuring.begin))


@pytest.fixture
def configuring(api: UsersApi) -> Configuring:
    return Configuring(api)


async def linked(api: UsersApi, service: str = "gmail") -> str:
    rows = UserConnections(api.all_rows)
    link = await api.vendor.link(api.ada.id, f"ac_{service}", "https://pages.test/callback")
    api.composio.agree(link.url)
    row = rows.begin(api.ada.user_id, api.ada.id, service, state=service, session="", life=LINK)
    assert row
    assert rows.got_link(row.id, link.account, link.expires_at)
    assert rows.move(row, ConnectionState.CONFIRMED)
    confirmed = rows.get(row.id)
    assert confirmed
    await api.upkeep.settle(confirmed)
    return link.account


def entry(api: UsersApi) -> Any:  # noqa: ANN401 - any JSON
    return api.relay.registry.instance_secrets.settings(api.ada.id).mcp_servers.get(SERVER)


async def test_a_linked_service_is_recorded_and_told_to_the_agent(api: UsersApi, configuring: Configuring) -> None:
    account, work = await linked(api), work_of(api, configuring)
    assert work.due() == [f"gmail of {api.ada.id}", f"agent {api.ada.id}"]
    assert set((await work.run()).values()) == {""}
    [record] = api.relay.registry.connections.list(api.ada.id)
    assert (record.service, record.access_token, record.refresh_token) == ("gmail", account, "")
    assert record.scopes == ("gmail.read",)
    token = token_in(entry(api))
    assert entry(api) == entry_for(URL, api.ada.id, token, ["gmail"])
    assert McpAccesses(api.all_rows).is_token(api.ada.id, token)
    assert not work.due()
    assert await work.run() == {}


async def test_another_service_keeps_the_token_and_changes_the_entry(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    await work.run()
    before = entry(api)
    await linked(api, "slack")
    await work.run()
    assert token_in(entry(api)) == token_in(before)
    assert entry(api)["headers"]["X-Connected-Services"] == "gmail,slack"


async def test_the_last_service_takes_token_and_entry_along(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    await work.run()
    token = token_in(entry(api))
    UserConnections(api.all_rows).disconnect(api.ada.user_id, "gmail")
    configuring.is_busy = True
    problems = await work.run()
    assert problems[f"agent {api.ada.id}"] == "something is under way"
    assert not McpAccesses(api.all_rows).is_token(api.ada.id, token)
    configuring.is_busy = False
    api.relay.clock.turn(11)
    await work.run()
    assert work.due() == [f"agent {api.ada.id}"]
    await work.run()
    assert entry(api) is None
    assert not api.composio.accounts
    assert not api.relay.registry.connections.list(api.ada.id)
    assert not work.due()


async def test_a_token_that_never_reached_the_settings_is_replaced(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    lost = McpAccesses(api.all_rows).grant(api.ada.id)
    await work.run()
    assert token_in(entry(api)) != lost
    assert McpAccesses(api.all_rows).is_token(api.ada.id, token_in(entry(api)))
    McpAccesses(api.all_rows).grant(api.ada.id)  # a process that dies before it opens the operation
    assert work.due() == [f"agent {api.ada.id}"]
    await work.run()
    assert McpAccesses(api.all_rows).is_token(api.ada.id, token_in(entry(api)))


async def test_settings_that_an_operator_replaces_get_the_entry_again(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    await work.run()
    await configuring.begin(api.ada.user_id, lambda _: InstanceSettings(personality="brief"), "replaced")
    assert work.due() == [f"agent {api.ada.id}"]
    await work.run()
    assert entry(api)
    assert api.relay.registry.instance_secrets.settings(api.ada.id).personality == "brief"


async def test_an_agent_that_does_not_run_is_left_alone(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
    await work.run()
    assert not configuring.whys


async def test_an_account_that_replaces_another_is_recorded_anew(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    before = await linked(api)
    await work.run()
    api.relay.clock.turn(60)
    after = await linked(api)
    api.relay.clock.turn(11)
    await work.run()
    [record] = api.relay.registry.connections.list(api.ada.id)
    assert record.access_token == after
    assert list(api.composio.accounts) == [after]
    assert before != after


async def test_records_of_other_kinds_are_left_alone(api: UsersApi, configuring: Configuring) -> None:
    api.relay.registry.connections.connect(api.ada.id, "own-server", access_token="t", scopes=["a"])
    work = work_of(api, configuring)
    assert not work.due()
    api.relay.registry.connections.connect(api.ada.id, "gmail", access_token="t")
    assert work.due() == [f"gmail of {api.ada.id}"]
    await work.run()
    assert [record.service for record in api.relay.registry.connections.list(api.ada.id)] == ["own-server"]


async def test_a_terminated_agent_loses_its_token(api: UsersApi, configuring: Configuring) -> None:
    work = work_of(api, configuring)
    await linked(api)
    await work.run()
    api.relay.registry.terminations.terminate(api.ada.id)
    await work.run()
    assert McpAccesses(api.all_rows).of_instance(api.ada.id) is None
    assert not work.due()


@pytest.mark.parametrize("server", [None, {"url": "https://x.test"}])
def test_a_patch_leaves_other_servers_and_is_what_a_machine_takes(server: dict[str, object] | None) -> None:
    others = {"notes": {"url": "https://notes.test"}}
    settings = InstanceSettings(mcp_servers=others if server is None else {**others, SERVER: server})
    given = entry_for(URL, InstanceId("i-1"), "token", ["gmail"])
    patched = patch_to(given)(settings)
    assert patched.mcp_servers == {**others, SERVER: given}
    assert Settings.parse({"mcp_servers": patched.mcp_servers}).mcp_servers == patched.mcp_servers
    assert patch_to(None)(patched).mcp_servers == others
    assert replace(patched, mcp_servers=settings.mcp_servers) == settings
