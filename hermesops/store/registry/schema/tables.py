"""The tables. A new registry is made from them and ``indexes``; scripts in ``migrations/`` bring older ones there.

``hermes_instances`` and ``hermes_connections`` have exactly the columns the platform's architecture gives them, because
other services read them. Everything of ours stands beside them in tables of our own.
"""

from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import OperationStatus
from hermesops.model.plan import Plan
from hermesops.store.registry.schema.columns import IpAddress, UtcTimestamp, choice, text_list, uuid

SEALED = "sealed"
"""Marks a column that holds encrypted values, for the place ``table/column/primary key``: ``True`` for the registry's
key ring, else the name of the ring."""


def unsealed(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """The columns of a table that no key seals: a query for anything but a secret reads these alone."""
    return tuple(column for column in table.columns if SEALED not in column.info)


metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

users = sa.Table(
    "users",
    metadata,
    # Helium's own id of the user. helium.users is in another database, so foreign keys point here.
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("alias", sa.String(31), nullable=True, unique=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
)

cells = sa.Table(
    "cells",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("region", sa.String(64), nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    # Text and not an enumeration of the database: NULL takes every plan, also those of later versions.
    sa.Column("only_plan", sa.String(16), nullable=True),
    sa.Column("applied_at", UtcTimestamp, nullable=True),
)

hermes_instances = sa.Table(
    "hermes_instances",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False),
    sa.Column("plan", choice(Plan, "hermes_plan"), nullable=False),
    sa.Column("vm_id", sa.String(64), nullable=True),
    sa.Column("vm_ip", IpAddress, nullable=True),
    # Always NULL: such a token is root on its machine, and only hermesops holds any (decision 35).
    sa.Column("proxy_token", sa.String(1024), nullable=True, info={SEALED: True}),
    sa.Column("status", choice(InstanceStatus, "hermes_instance_status"), nullable=False),
    sa.Column("stripe_subscription_id", sa.String(255), nullable=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("last_heartbeat", UtcTimestamp, nullable=True),
)
LIVING = hermes_instances.c.status != InstanceStatus.TERMINATED
"""Instances that are not terminated."""

hermes_connections = sa.Table(
    "hermes_connections",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("service", sa.String(64), nullable=False),
    sa.Column("access_token", sa.Text, nullable=False, info={SEALED: True}),
    sa.Column("refresh_token", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("scopes", text_list(), nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=True),
    sa.Column("connected_at", UtcTimestamp, nullable=False),
)

instance_details = sa.Table(
    "instance_details",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("cell", sa.String(64), sa.ForeignKey("cells.name"), nullable=False, index=True),
    sa.Column("machine_name", sa.String(128), nullable=False, unique=True),
    sa.Column("machine_wanted", sa.Boolean(name="machine_wanted"), nullable=False),
    sa.Column("server_type", sa.String(64), nullable=False),
    sa.Column("region", sa.String(64), nullable=False),
    sa.Column("image_id", sa.String(64), nullable=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("settings", sa.Text, nullable=False, info={SEALED: True}),
    sa.Column("api_server_key", sa.Text, nullable=False, info={SEALED: True}),
    sa.Column("model_token_generation", sa.Integer, nullable=False),
    sa.Column("settings_before", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("grace_until", UtcTimestamp, nullable=True),
    sa.Column("model_token_expires_at", UtcTimestamp, nullable=True),
    sa.Column("model_token_handed_at", UtcTimestamp, nullable=True),
    # Text and not an enumeration of the database: it comes from machines, and words may be added.
    sa.Column("reported_gateway", sa.String(16), nullable=True),
    # The oldest generation that counts while another one is handed out; NULL: the generation is.
    sa.Column("model_token_floor", sa.Integer, nullable=True),
    # The rollout of tokens that the present generation belongs to.
    sa.Column("model_token_rotation", sa.String(32), nullable=True),
    # Grows with each change of the settings, so that a copy of them is known to be old.
    sa.Column("settings_revision", sa.Integer, nullable=False, server_default="0"),
)

unassigned_machines = sa.Table(
    "unassigned_machines",
    metadata,
    sa.Column("name", sa.String(128), primary_key=True),
    # Text and not enumerations of the database: roles are added with time, and an older hermesops may meet one.
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=True, index=True),
    sa.Column("cell", sa.String(64), sa.ForeignKey("cells.name"), nullable=False, index=True),
    sa.Column("plan", sa.String(16), nullable=False),
    sa.Column("server_type", sa.String(64), nullable=False),
    sa.Column("region", sa.String(64), nullable=False),
    sa.Column("image_id", sa.String(64), nullable=True),
    sa.Column("machine_id", sa.String(64), nullable=True),
    sa.Column("wanted", sa.Boolean(name="wanted"), nullable=False),
    sa.Column("api_server_key", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("ready_at", UtcTimestamp, nullable=True),
)

proxy_tokens = sa.Table(
    "proxy_tokens",
    metadata,
    sa.Column("machine_id", sa.String(64), primary_key=True),
    sa.Column("purpose", sa.String(64), primary_key=True),
    sa.Column("token_id", sa.String(64), nullable=False),
    sa.Column("token", sa.Text, nullable=False, info={SEALED: True}),
    sa.Column("expires_at", UtcTimestamp, nullable=False),
    sa.Column("address", sa.String(512), nullable=False, server_default=""),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False, index=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
)

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    # Text and not an enumeration of the database: kinds are added with time, and an older hermesops may meet it.
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=True, index=True),
    sa.Column("intent", sa.JSON, nullable=False),
    sa.Column("status", choice(OperationStatus, "operation_status"), nullable=False),
    sa.Column("step", sa.String(255), nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("updated_at", UtcTimestamp, nullable=False),
    # Its history is read every few seconds by the monitor, which asks for the kinds that it counts.
    sa.Index("ix_operations_kind_created_at", "kind", "created_at"),
)
UNFINISHED = operations.c.status.in_(
    sa.bindparam(
        "unfinished",
        [status for status in OperationStatus if not status.has_ended],
        expanding=True,
        # As the index says it: a database uses a partial index only where it reads the same condition.
        literal_execute=True,
    )
)
"""Operations that have not ended."""

operation_steps = sa.Table(
    "operation_steps",
    metadata,
    # SQLite numbers rows by itself only in a column declared INTEGER.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=False, index=True),
    sa.Column("at", UtcTimestamp, nullable=False),
    sa.Column("step", sa.String(255), nullable=False),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("subject", sa.String(255), primary_key=True),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("counter", sa.BigInteger, nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    # SQLite numbers rows by itself only in a column declared INTEGER.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at", UtcTimestamp, nullable=False),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False, index=True),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("before", sa.JSON, nullable=False),
    sa.Column("after", sa.JSON, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="1"),
    sa.Column("previous", sa.String(64), nullable=False, server_default=""),
    sa.Column("hash", sa.String(64), nullable=False, server_default=""),
)

machine_observations = sa.Table(
    "machine_observations",
    metadata,
    sa.Column("machine_id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("server_type", sa.String(64), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("boot_id", sa.String(64), nullable=False),
    sa.Column("boot_seen_at", UtcTimestamp, nullable=True),
)

backup_repositories = sa.Table(
    "backup_repositories",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("password", sa.Text, nullable=False, info={SEALED: True}),
    sa.Column("access_key", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("secret_key", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("issued_at", UtcTimestamp, nullable=True),
    sa.Column("restored_by", uuid(), nullable=True),
)

backups = sa.Table(
    "backups",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("at", UtcTimestamp, nullable=False),
    sa.Column("why", sa.String(255), nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("added", sa.BigInteger, nullable=False),
    sa.Column("state", sa.JSON, nullable=False),
    sa.Column("checked_at", UtcTimestamp, nullable=True),
    sa.Column("checked", sa.Text, nullable=False),
)

authorities = sa.Table(
    "authorities",
    metadata,
    sa.Column("certificate", sa.Text, primary_key=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
)

certificates = sa.Table(
    "certificates",
    metadata,
    sa.Column("serial", sa.String(40), primary_key=True),
    sa.Column("key", sa.String(64), nullable=False, index=True),
    sa.Column("machine_id", sa.String(64), nullable=False, index=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=True, index=True),
    sa.Column("cell", sa.String(64), nullable=True),
    sa.Column("issued_at", UtcTimestamp, nullable=False),
    sa.Column("not_after", UtcTimestamp, nullable=False, index=True),
    sa.Column("revoked_at", UtcTimestamp, nullable=True),
    sa.Column("why", sa.Text, nullable=False),
)

relay_callers = sa.Table(
    "relay_callers",
    metadata,
    sa.Column("serial", sa.String(40), primary_key=True),
    sa.Column("name", sa.String(31), nullable=False, index=True),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("issued_at", UtcTimestamp, nullable=False),
    sa.Column("not_after", UtcTimestamp, nullable=False),
    sa.Column("revoked_at", UtcTimestamp, nullable=True),
    sa.Column("why", sa.Text, nullable=False),
)

data_keys = sa.Table(
    "data_keys",
    metadata,
    sa.Column("volume_id", uuid(), primary_key=True),
    sa.Column("machine_id", sa.String(64), nullable=False, index=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=True, index=True),
    sa.Column("key", sa.Text, nullable=True, info={SEALED: True}),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("destroyed_at", UtcTimestamp, nullable=True),
)

break_glass_orders = sa.Table(
    "break_glass_orders",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("machine_id", sa.String(64), nullable=False, index=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("source", sa.String(64), nullable=False),
    sa.Column("host_key", sa.Text, nullable=False),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=False),
    sa.Column("opened_at", UtcTimestamp, nullable=True),
    sa.Column("withdrawn_at", UtcTimestamp, nullable=True),
    sa.Column("closed_at", UtcTimestamp, nullable=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("address", sa.String(64), nullable=False),
)

ssh_hosts = sa.Table(
    "ssh_hosts",
    metadata,
    sa.Column("machine_id", sa.String(64), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("reported_at", UtcTimestamp, nullable=False),
)


releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("agent_version", sa.String(64), nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("revoked_at", UtcTimestamp, nullable=True),
    sa.Column("why", sa.Text, nullable=False),
)

rollouts = sa.Table(
    "rollouts",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    # No key of releases: an instance may be brought back to one that only machines remember.
    sa.Column("release", sa.String(64), nullable=False, index=True),
    # Text and not enumerations of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("updated_at", UtcTimestamp, nullable=False),
    sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=True),
    sa.Column("decisions", sa.JSON, nullable=False),
)

rollout_targets = sa.Table(
    "rollout_targets",
    metadata,
    sa.Column("rollout_id", sa.String(64), sa.ForeignKey("rollouts.id"), primary_key=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True, index=True),
    sa.Column("stage", sa.Integer, nullable=False),
    sa.Column("batch", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("facts", sa.JSON, nullable=False),
    sa.Column("progress", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("touched_at", UtcTimestamp, nullable=True),
    sa.Column("updated_at", UtcTimestamp, nullable=True),
    # Whether the rollout keeps others off the instance; see the index one_rollout_per_instance.
    sa.Column("held", sa.Boolean(name="held"), nullable=False),
)

rollout_events = sa.Table(
    "rollout_events",
    metadata,
    # SQLite numbers rows by itself only in a column declared INTEGER.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("rollout_id", sa.String(64), sa.ForeignKey("rollouts.id"), nullable=False, index=True),
    sa.Column("at", UtcTimestamp, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("decision", sa.JSON, nullable=False),
    sa.Column("evidence", sa.JSON, nullable=False),
)

exposures = sa.Table(
    "exposures",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("release", sa.String(64), primary_key=True),
    sa.Column("at", UtcTimestamp, nullable=False, index=True),
)

instance_releases = sa.Table(
    "instance_releases",
    metadata,
    # The release observed last, and when it was first observed; the machine itself may have changed since.
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("release", sa.String(64), nullable=False),
    sa.Column("seen_at", UtcTimestamp, nullable=False),
)

freezes = sa.Table(
    "freezes",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("begins_at", UtcTimestamp, nullable=False),
    sa.Column("ends_at", UtcTimestamp, nullable=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.String(255), nullable=False),
    sa.Column("lifted_at", UtcTimestamp, nullable=True),
)

instance_policies = sa.Table(
    "instance_policies",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("opted_in", sa.Boolean(name="opted_in"), nullable=False),
    sa.Column("protected", sa.Boolean(name="protected"), nullable=False),
    # Hours of the user's own day, as "22:00"; empty where no hours are quiet.
    sa.Column("quiet_from", sa.String(5), nullable=False),
    sa.Column("quiet_until", sa.String(5), nullable=False),
    sa.Column("timezone", sa.String(64), nullable=False),
)

health_samples = sa.Table(
    "health_samples",
    metadata,
    # Health samples, kept for some days and compared with later ones.
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("at", UtcTimestamp, primary_key=True, index=True),
    sa.Column("reading", sa.Text, nullable=False),
)

billing_events = sa.Table(
    "billing_events",
    metadata,
    # The control plane's webhook endpoint writes body and signature; the database has defaults for the rest.
    # SQLite numbers rows by itself only in a column declared INTEGER.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("received_at", UtcTimestamp, nullable=False, server_default=sa.func.current_timestamp()),
    # As received; NULL once the event was read. Users' names and addresses may be in it.
    sa.Column("body", sa.LargeBinary, nullable=True),
    sa.Column("signature", sa.Text, nullable=True),
    # Text and not an enumeration of the database: another service writes rows.
    sa.Column("state", sa.String(16), nullable=False, server_default="queued"),
    sa.Column("event_id", sa.String(255), nullable=True, unique=True),
    sa.Column("type", sa.String(64), nullable=True),
    sa.Column("subscription_id", sa.String(255), nullable=True, index=True),
    # No key of users: the first event of a subscription comes before its user has a row.
    sa.Column("user_id", uuid(), nullable=True, index=True),
    sa.Column("prices", sa.JSON, nullable=True),
    sa.Column("status", sa.String(32), nullable=True),
    sa.Column("created_at", UtcTimestamp, nullable=True),
    sa.Column("started_at", UtcTimestamp, nullable=True),
    sa.Column("pause", sa.String(32), nullable=True),
    sa.Column("deliveries", sa.Integer, nullable=False, server_default="1"),
    sa.Column("detail", sa.Text, nullable=False, server_default=""),
    sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=True),
    sa.Column("due_at", UtcTimestamp, nullable=True),
    sa.Column("decided_at", UtcTimestamp, nullable=True),
    sa.Index("ix_billing_events_state_due_at", "state", "due_at"),
)

model_usage = sa.Table(
    "model_usage",
    metadata,
    # Model routers add to rows. No key of instances: what was used is billed after an instance's row is gone, too.
    sa.Column("day", sa.Date, primary_key=True),
    sa.Column("instance_id", uuid(), primary_key=True, index=True),
    # Texts and not enumerations of the database: a router of another version may know more of them.
    sa.Column("model", sa.String(64), primary_key=True),
    sa.Column("provider", sa.String(32), primary_key=True),
    sa.Column("outcome", sa.String(16), primary_key=True),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    # Millionths of a US dollar.
    sa.Column("micros", sa.BigInteger, nullable=False),
)

model_usage_batches = sa.Table(
    "model_usage_batches",
    metadata,
    # What was added already: a router that got no answer delivers a batch again.
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("at", UtcTimestamp, nullable=False, index=True),
)

model_budgets = sa.Table(
    "model_budgets",
    metadata,
    # What an agent may use in a month (UTC); a plan without a row, and NULL, have no limit.
    sa.Column("plan", sa.String(16), primary_key=True),
    sa.Column("tokens", sa.BigInteger, nullable=True),
    sa.Column("micros", sa.BigInteger, nullable=True),
)
