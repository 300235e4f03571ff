"""What users say, name and hold is planted in the API, and found in no log, figure, audit entry, row or key of Redis.

Rows hold it sealed; ``tests/support/hostile/canaries`` does the same for secrets of operators and their commands.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from hermesops.automation.monitor.metrics.figures import users_half_series
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.chat.shared_events import SharedEventLog
from hermesops.views.users.api import status
from tests.support.real.stores.redis_server import RedisServer, redis_server
from tests.support.real.stores.registries import KEYS, TurnedClock
from tests.support.users.api import STRIPE, Client, UsersApi, users_api
from tests.support.users.calling import calling_agent, message

PLANTED = (
    "caller",
    "task",
    "push",
    "prompt",
    "conversation",
    "file",
    "content",
    "personality",
    "token",
    "stripe",
    "webhook",
)
CANARIES: Mapping[str, str] = {what: f"canary-{what}-{uuid4().hex[:12]}" for what in PLANTED}

NAMES_IN_CLEAR = frozenset({"conversation"})
"""Names that users choose and that rows hold as they are; they are in no other place. ``turns.conversation``."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock, redis: RedisServer) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, registry_url, clock, lambda: SharedEventLog(redis.client(), KEYS)) as api:
        yield api


def rows_of(database: Database) -> str:
    """Every value of every row."""
    tables = sa.MetaData()
    with database.reading() as connection:
        tables.reflect(connection)
        rows = [tuple(row) for table in tables.sorted_tables for row in connection.execute(sa.select(table))]
    return repr(rows)


async def keys_of(redis: RedisServer) -> str:
    """Every key of Redis, and what it holds."""
    async with redis.client() as client:
        keys = [key async for key in client.scan_iter()]
        return repr([(key, await client.xrange(key)) for key in keys])


async def called(api: UsersApi, ada: Client) -> None:
    """Let an agent of somebody else call, and name an address that cannot be reached."""
    host = f"{CANARIES['push']}.example.com"
    async with calling_agent(api, ada, name=CANARIES["caller"], push_hosts=[host]) as caller:
        push = {"url": f"https://{host}/{CANARIES['push']}", "token": CANARIES["push"]}
        configuration = {"taskPushNotificationConfig": push}
        sent = {"message": message(f"do {CANARIES['task']}"), "configuration": configuration}
        assert (await caller.result("SendMessage", sent))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        await caller.post(f'{{"method": "{CANARIES["task"]}"}}'.encode())
        api.relay.registry.callers.record()
        KEYS_MADE.add(caller.key)


KEYS_MADE = set[str]()
"""Keys of callers, which are found nowhere, not even sealed."""


async def planted(api: UsersApi, ada: Client) -> None:
    """Let a user say and hold all of them."""
    files = {"file": (f"{CANARIES['file']}.txt", CANARIES["content"].encode())}
    assert (await ada.ask("POST", "/chat/files", files=files)).status_code == 201
    await ada.whole(f"do {CANARIES['prompt']}", conversation=CANARIES["conversation"])
    refused = {"authorization": f"Bearer {CANARIES['token']}"}
    assert (await ada.ask("GET", "/me", headers=refused)).status_code == 401
    unsigned = await ada.http.post(
        "/webhooks/stripe/hermes", content=CANARIES["stripe"], headers={"stripe-signature": CANARIES["webhook"]}
    )
    assert unsigned.status_code == 401
    settings = InstanceSettings(personality=CANARIES["personality"])
    registry = api.relay.registry
    registry.settings_changes.change(api.ada.id, settings, subject=f"instance/{api.ada.id}", intent={}, why="test")
    SettingsCopying(registry, lambda: SettingsCopies(api.all_rows, KEYS)).run()
    await called(api, ada)
    tag = (await ada.ask("GET", "/settings")).headers["etag"]
    changes = {"personality": f"more {CANARIES['personality']}"}
    assert (await ada.ask("PATCH", "/settings", json=changes, headers={"if-match": tag})).status_code == 202


async def test_nothing_that_users_say_or_hold_is_found_in_clear(
    api: UsersApi, redis: RedisServer, capfd: pytest.CaptureFixture[str]
) -> None:
    async with api.client() as ada:
        await planted(api, ada)
    registry = api.relay.registry
    places = {
        "rows": rows_of(api.all_rows),
        "redis": await keys_of(redis),
        "audit": repr(registry.audit.list()),
        "figures": repr(users_half_series(registry.users_half.read())) + json.dumps(status(registry.users_half.read())),
    }
    logs = capfd.readouterr()
    places["logs"] = logs.out + logs.err
    assert "request_ended" in places["logs"], "logs are looked at"
    assert api.ada.id in places["rows"], "rows are looked at"
    places_found = {
        (place, what) for place, text in places.items() for what, canary in CANARIES.items() if canary in text
    }
    assert places_found == {("rows", what) for what in NAMES_IN_CLEAR}
    everything = "".join(places.values())
    assert STRIPE.secret not in everything
    assert KEYS_MADE
    assert not [key for key in KEYS_MADE if key in everything]
