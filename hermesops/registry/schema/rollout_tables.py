"""The tables of releases, rollouts and what they have to mind, as code knows them; see ``schema``."""

import sqlalchemy as sa

from hermesops.registry.schema.columns import UtcTimestamp, uuid
from hermesops.registry.schema.tables import metadata

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
    # What was seen last, for whoever cannot ask ten thousand machines; a machine knows better.
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

readings = sa.Table(
    "readings",
    metadata,
    # What a node said of its agent in figures; kept for some days, for whoever compares it with later ones.
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("at", UtcTimestamp, primary_key=True, index=True),
    sa.Column("reading", sa.Text, nullable=False),
)
