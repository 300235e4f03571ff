"""A registry as the first revision wrote it, with a row of every kind."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from hermesops.registry.database import Database
from hermesops.registry.schema import tables
from tests.support.registries import KEYS

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
USER = "0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001"
INSTANCE = "1d4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a002"
ENDED = "2d4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a003"
OPERATION = "3d4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a004"
AUDITED = 7
"""Entries there are; the third opened an epoch, and one number was never used, as after a transaction undone."""


def make(url: str) -> None:
    """Write it where there is nothing yet."""
    database = Database(url)
    with database.writing() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(tables.__file__).parents[1] / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        _fill(connection)
    database.close()


def _fill(connection: sa.Connection) -> None:
    def put(table: sa.Table, **values: object) -> None:
        connection.execute(table.insert().values(values))

    def sealed(plain: str, table: str, column: str, row: str) -> str:
        return KEYS.seal(plain, place=f"{table}/{column}/{row}")

    put(tables.meta, name="key_proof", value=sealed("this key opens this registry", "meta", "value", "key_proof"))
    connection.execute(tables.meta.update().where(tables.meta.c.name == "epoch").values(value="2"))
    put(tables.meta, name="image/hermes-base", value="i-1")
    put(tables.users, id=USER, alias="ada", created_at=AT)
    put(tables.cells, name="cell1", region="hel1", created_at=AT)
    put(tables.images, id="i-1", name="hermes-base", digest="d" * 64, manifest={"packages": {"a": "1"}}, created_at=AT)
    for instance, status, days in ((ENDED, "terminated", 0), (INSTANCE, "running", 1)):
        put(
            tables.hermes_instances,
            id=instance,
            user_id=USER,
            plan="light",
            vm_id=f"m-{days}",
            vm_ip="10.1.2.3",
            status=status,
            stripe_subscription_id="sub_1",
            created_at=AT + timedelta(days=days),
            last_heartbeat=AT,
        )
        put(
            tables.instance_details,
            instance_id=instance,
            cell="cell1",
            machine_name=f"hermes-local-cell1-{instance.replace('-', '')[:12]}",
            machine_wanted=status == "running",
            server_type="starter",
            region="hel1",
            image_id="i-1",
            epoch=1,
            settings=sealed(json.dumps({"personality": "kind"}), "instance_details", "settings", instance),
            api_server_key=sealed("the key", "instance_details", "api_server_key", instance),
            model_token_generation=3,
        )
    put(
        tables.hermes_connections,
        id=OPERATION,
        instance_id=INSTANCE,
        service="google",
        access_token=sealed("access", "hermes_connections", "access_token", OPERATION),
        refresh_token=None,
        scopes=["mail"],
        expires_at=AT,
        connected_at=AT,
    )
    put(
        tables.proxy_tokens,
        machine_id="m-1",
        purpose="chat",
        token_id="t-1",
        token=sealed("token", "proxy_tokens", "token", "m-1/chat"),
        expires_at=AT,
    )
    put(
        tables.proxy_tokens,
        machine_id="m-1",
        purpose="platform",
        token_id="t-2",
        token=sealed("published", "proxy_tokens", "token", "m-1/platform"),
        expires_at=AT + timedelta(days=30000),
    )
    published = sealed("published", "hermes_instances", "proxy_token", INSTANCE)
    is_it = tables.hermes_instances.c.id == INSTANCE
    connection.execute(tables.hermes_instances.update().where(is_it).values(proxy_token=published))
    put(
        tables.operations,
        id=OPERATION,
        kind="restart",
        subject=f"instance/{INSTANCE}",
        instance_id=INSTANCE,
        intent={"before": "x"},
        status="running",
        step="waiting",
        outcome="",
        created_at=AT,
        updated_at=AT,
    )
    put(tables.leases, subject=f"instance/{INSTANCE}", holder="", epoch=2, counter=9, expires_at=AT)
    for number in range(1, AUDITED + 2):
        if number == 5:
            continue
        is_opening = number == 3
        put(
            tables.audit,
            id=number,
            at=AT + timedelta(seconds=number),
            who="tester",
            action="epoch_opened" if is_opening else "status_changed",
            subject="registry" if is_opening else f"instance/{INSTANCE}",
            why='ümläut "quoted"',
            before={"epoch": 1} if is_opening else {"status": None, "list": [1, 2.5, "x"]},
            after={"epoch": 2} if is_opening else {"status": "running"},
        )
