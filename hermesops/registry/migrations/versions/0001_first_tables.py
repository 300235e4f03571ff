"""Make the first tables: the platform's two, and ours beside them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from hermesops.registry.schema.columns import IpAddress, UtcTimestamp

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table, and the triggers that let nobody rewrite the audit."""
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("who", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_subject"), "audit", ["subject"], unique=False)
    op.create_table(
        "cells",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("region", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cells")),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    op.create_index(op.f("ix_images_name"), "images", ["name"], unique=False)
    op.create_table(
        "leases",
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_leases")),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "proxy_tokens",
        sa.Column("machine_id", sa.String(length=64), nullable=False),
        sa.Column("purpose", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.String(length=64), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", "purpose", name=op.f("pk_proxy_tokens")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("alias", sa.String(length=31), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("alias", name=op.f("uq_users_alias")),
    )
    op.create_table(
        "hermes_instances",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("user_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("plan", sa.Enum("light", "heavy", name="hermes_plan", create_constraint=True), nullable=False),
        sa.Column("vm_id", sa.String(length=64), nullable=True),
        sa.Column("vm_ip", IpAddress(), nullable=True),
        sa.Column("proxy_token", sa.String(length=1024), nullable=True),
        sa.Column(
            "status",
            sa.Enum(
                "provisioning",
                "running",
                "suspended",
                "terminated",
                name="hermes_instance_status",
                create_constraint=True,
            ),
            nullable=False,
        ),
        sa.Column("stripe_subscription_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("last_heartbeat", UtcTimestamp(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_hermes_instances_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hermes_instances")),
    )
    op.create_index(
        "one_living_instance_per_user",
        "hermes_instances",
        ["user_id"],
        unique=True,
        sqlite_where=sa.text("status != 'terminated'"),
        postgresql_where=sa.text("status != 'terminated'"),
    )
    op.create_table(
        "hermes_connections",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("instance_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("service", sa.String(length=64), nullable=False),
        sa.Column("access_token", sa.Text(), nullable=False),
        sa.Column("refresh_token", sa.Text(), nullable=True),
        sa.Column("scopes", sa.JSON().with_variant(postgresql.ARRAY(sa.Text()), "postgresql"), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=True),
        sa.Column("connected_at", UtcTimestamp(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["hermes_instances.id"], name=op.f("fk_hermes_connections_instance_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hermes_connections")),
    )
    op.create_index(op.f("ix_hermes_connections_instance_id"), "hermes_connections", ["instance_id"], unique=False)
    op.create_table(
        "instance_details",
        sa.Column("instance_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("cell", sa.String(length=64), nullable=False),
        sa.Column("machine_name", sa.String(length=128), nullable=False),
        sa.Column("machine_wanted", sa.Boolean(name="machine_wanted"), nullable=False),
        sa.Column("server_type", sa.String(length=64), nullable=False),
        sa.Column("region", sa.String(length=64), nullable=False),
        sa.Column("image_id", sa.String(length=64), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("api_server_key", sa.Text(), nullable=False),
        sa.Column("model_token_generation", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["cell"], ["cells.name"], name=op.f("fk_instance_details_cell")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_instance_details_instance_id")),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instance_details")),
        sa.UniqueConstraint("machine_name", name=op.f("uq_instance_details_machine_name")),
    )
    op.create_index(op.f("ix_instance_details_cell"), "instance_details", ["cell"], unique=False)
    op.create_table(
        "operations",
        sa.Column("id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("instance_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("intent", sa.JSON(), nullable=False),
        sa.Column(
            "status",
            sa.Enum(
                "pending", "running", "done", "failed", "abandoned", name="operation_status", create_constraint=True
            ),
            nullable=False,
        ),
        sa.Column("step", sa.String(length=255), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("updated_at", UtcTimestamp(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_operations_instance_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    op.create_index(op.f("ix_operations_instance_id"), "operations", ["instance_id"], unique=False)
    op.create_index(
        "one_unfinished_operation_per_subject",
        "operations",
        ["subject", "kind"],
        unique=True,
        sqlite_where=sa.text("status IN ('pending', 'running')"),
        postgresql_where=sa.text("status IN ('pending', 'running')"),
    )

    op.execute("INSERT INTO meta (name, value) VALUES ('epoch', '1')")
    if op.get_bind().dialect.name == "sqlite":
        _guard_audit_on_sqlite()
    else:
        _guard_audit_on_postgresql()


def _guard_audit_on_sqlite() -> None:
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_refuses_{verb.lower()} BEFORE {verb} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit is only ever appended to'); END"
        )


def _guard_audit_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_rewriting_audit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'audit is only ever appended to'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_refuses_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting_audit()"
    )
