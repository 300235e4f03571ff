"""Keep releases, rollouts with their targets and decisions, and what they mind: exposures, freezes, policies."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the tables; nothing was rolled out before."""
    _add_releases()
    _add_rollouts()
    _add_targets()
    _add_events()
    _add_what_is_minded()


def _add_releases() -> None:
    op.create_table(
        "releases",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("agent_version", sa.String(64), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("revoked_at", UtcTimestamp(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
    )


def _add_rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("updated_at", UtcTimestamp(), nullable=False),
        sa.Column("operation_id", uuid(), nullable=True),
        sa.Column("decisions", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_rollouts_operation_id")),
    )
    op.create_index(op.f("ix_rollouts_release"), "rollouts", ["release"])


def _add_targets() -> None:
    op.create_table(
        "rollout_targets",
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("touched_at", UtcTimestamp(), nullable=True),
        sa.Column("updated_at", UtcTimestamp(), nullable=True),
        sa.Column("held", sa.Boolean(name="held"), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", "instance_id", name=op.f("pk_rollout_targets")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_targets_rollout_id")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_rollout_targets_instance_id")),
    )
    for column in ("instance_id", "state"):
        op.create_index(op.f(f"ix_rollout_targets_{column}"), "rollout_targets", [column])
    held = sa.text("held")
    op.create_index(
        "one_rollout_per_instance",
        "rollout_targets",
        ["instance_id"],
        unique=True,
        sqlite_where=held,
        postgresql_where=held,
    )


def _add_events() -> None:
    op.create_table(
        "rollout_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("decision", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_events")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_events_rollout_id")),
    )
    op.create_index(op.f("ix_rollout_events_rollout_id"), "rollout_events", ["rollout_id"])


def _add_what_is_minded() -> None:
    op.create_table(
        "exposures",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "release", name=op.f("pk_exposures")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_exposures_instance_id")),
    )
    op.create_index(op.f("ix_exposures_at"), "exposures", ["at"])
    op.create_table(
        "instance_releases",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("seen_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instance_releases")),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["hermes_instances.id"], name=op.f("fk_instance_releases_instance_id")
        ),
    )
    op.create_table(
        "freezes",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("begins_at", UtcTimestamp(), nullable=False),
        sa.Column("ends_at", UtcTimestamp(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("lifted_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_freezes")),
    )
    op.create_table(
        "instance_policies",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("opted_in", sa.Boolean(name="opted_in"), nullable=False),
        sa.Column("protected", sa.Boolean(name="protected"), nullable=False),
        sa.Column("quiet_from", sa.String(5), nullable=False),
        sa.Column("quiet_until", sa.String(5), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instance_policies")),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["hermes_instances.id"], name=op.f("fk_instance_policies_instance_id")
        ),
    )
