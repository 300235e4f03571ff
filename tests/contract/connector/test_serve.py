"""The connector as a process: its settings and secrets, and a message through all of it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.access.secrets.catalog import CONNECTOR_KEY, MESSAGES_KEY, SLACK_TOKEN, TELEGRAM_TOKEN
from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.base.files.private_file import replace_secret
from hermesops.base.waiting import cancel
from hermesops.connector.serve import serve
from hermesops.errors import UsageError
from hermesops.model.messaging.message import Update
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.users.messaging.inbound.routing import CONNECTED, STRANGER
from hermesops.users.messaging.messengers.slack import read as slack
from hermesops.users.messaging.messengers.telegram.read import read
from hermesops.users.messaging.relay_secrets import derive
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, users_api
from tests.support.users.messaging import HOST, Messaging, dialled, messaging
from tests.support.users.phones import SlackPhone
from tests.support.users.processes import NAME, of_api

pytestmark = [pytest.mark.turns(20), pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)]

ADA = 111
KEY = "canary-root-of-sockets-" + "x" * 32
ORIGIN = "https://agents.test"


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    clock.timestamp = datetime.now(UTC)
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@pytest.fixture
async def world(api: UsersApi) -> AsyncIterator[Messaging]:
    async with messaging(api.all_rows) as world:
        yield world


def report(api: UsersApi, home: Path, world: Messaging, text: str) -> None:
    """Keep what a person writes as the users' API does, sealed by the process's key."""
    ring = Ring.parse((home / NAME / "keys" / MESSAGES_KEY.name).read_text())
    update = read(json.dumps(world.telegram.message(ADA, text)).encode())
    assert update is not None
    IncomingMessages(api.all_rows, KeyRing(ring.current, ring.keys)).add(update)


async def test_a_message_passes_through_a_process_that_has_its_own_secrets_alone(
    api: UsersApi, world: Messaging, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    of_api(home, api, ORIGIN)
    replace_secret(home / NAME / "keys" / CONNECTOR_KEY.name, f"{KEY}\n{'old' * 16}\n")
    replace_secret(home / NAME / "keys" / TELEGRAM_TOKEN.name, world.telegram.token)
    more = {"HERMESOPS_MESSENGERS_TELEGRAM_BOT": "helium_bot", "HERMESOPS_MESSENGERS_TELEGRAM_URL": world.telegram_url}
    env = of_api(home, api, ORIGIN, (home / NAME / "keys" / MESSAGES_KEY.name).read_text(), **more)
    ring = Ring.parse((home / NAME / "keys" / MESSAGES_KEY.name).read_text())
    listener = socket.create_server((HOST, world.port))
    serving = asyncio.ensure_future(serve(env, listener))
    try:
        async with dialled(world, api.ada, derive(KEY.encode(), api.ada.id, 1)) as gateway:
            world.telegram.chat(ADA)
            code = MessengerAccounts(api.all_rows, KeyRing(ring.current, ring.keys)).add_code(api.ada.user_id)
            report(api, home, world, f"/start {code}")
            await world.hears(ADA, CONNECTED)
            report(api, home, world, "hello")
            frame = await gateway.next("inbound")
            assert frame["event"]["text"] == "hello"
            await gateway.send("tg.111", "hi", reply_to=frame["event"]["message_id"])
            await world.hears(ADA, CONNECTED, "hi")
        async with dialled(world, api.ada, derive(("old" * 16).encode(), api.ada.id, 1)):
            pass
    finally:
        await cancel(serving)


async def test_a_process_serves_slack_alone(api: UsersApi, world: Messaging, tmp_path: Path) -> None:
    home = tmp_path / "home"
    of_api(home, api, ORIGIN)
    keys = home / NAME / "keys"
    replace_secret(keys / CONNECTOR_KEY.name, f"{KEY}\n")
    replace_secret(keys / SLACK_TOKEN.name, f"{world.slack.token}\n")
    more = {"HERMESOPS_MESSENGERS_SLACK_APP": "A0123456789", "HERMESOPS_MESSENGERS_SLACK_URL": world.slack_url}
    env = of_api(home, api, ORIGIN, (keys / MESSAGES_KEY.name).read_text(), **more)
    ring = Ring.parse((keys / MESSAGES_KEY.name).read_text())
    update = slack.read(json.dumps(world.slack.message("111", "hello")).encode())
    assert isinstance(update, Update)
    listener = socket.create_server((HOST, world.port))
    serving = asyncio.ensure_future(serve(env, listener))
    try:
        IncomingMessages(api.all_rows, KeyRing(ring.current, ring.keys)).add(update)
        await SlackPhone(world).hears(STRANGER)
    finally:
        await cancel(serving)


async def test_a_bot_that_is_not_set_is_named(api: UsersApi, tmp_path: Path) -> None:
    env = of_api(tmp_path / "home", api, ORIGIN)
    with socket.create_server((HOST, 0)) as listener, pytest.raises(UsageError, match=r"messengers\.telegram_bot"):
        await serve(env, listener)
