"""Make the tables: the platform's two, and ours beside them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from hermesops.registry.schema.columns import IpAddress, UtcTimestamp, uuid

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table, and the triggers that refuse whoever would rewrite the audit."""
    _make_registry()
    _make_audit()
    _make_images()
    _make_instances()
    _make_machines()
    _make_operations()
    _make_backups()
    _make_credentials()
    _make_releases()
    _make_rollouts()
    _make_freezes_and_policies()


def _make_registry() -> None:
    op.create_table(
        "meta",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.execute("INSERT INTO meta (name, value) VALUES ('epoch', '1')")
    op.create_table(
        "leases",
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_leases")),
    )


def _make_audit() -> None:
    op.create_table(
        "audit",
        _numbered("id"),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("previous", sa.String(64), nullable=False, server_default=""),
        sa.Column("hash", sa.String(64), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    _index("audit", "subject")
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


def _make_images() -> None:
    op.create_table(
        "images",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    _index("images", "name")


def _make_instances() -> None:
    op.create_table(
        "users",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("alias", sa.String(31), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("alias", name=op.f("uq_users_alias")),
    )
    op.create_table(
        "cells",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("region", sa.String(64), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("only_plan", sa.String(16), nullable=True),
        sa.Column("brought_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cells")),
    )
    _make_platform_tables()
    op.create_table(
        "instance_details",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("cell", sa.String(64), nullable=False),
        sa.Column("machine_name", sa.String(128), nullable=False),
        sa.Column("machine_wanted", sa.Boolean(name="machine_wanted"), nullable=False),
        sa.Column("server_type", sa.String(64), nullable=False),
        sa.Column("region", sa.String(64), nullable=False),
        sa.Column("image_id", sa.String(64), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("api_server_key", sa.Text(), nullable=False),
        sa.Column("model_token_generation", sa.Integer(), nullable=False),
        sa.Column("settings_before", sa.Text(), nullable=True),
        sa.Column("grace_until", UtcTimestamp(), nullable=True),
        sa.Column("model_token_expires_at", UtcTimestamp(), nullable=True),
        sa.Column("model_token_handed_at", UtcTimestamp(), nullable=True),
        _key_of("instance_details", "cell", "cells.name"),
        _instance_key("instance_details"),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instance_details")),
        sa.UniqueConstraint("machine_name", name=op.f("uq_instance_details_machine_name")),
    )
    _index("instance_details", "cell")


def _make_platform_tables() -> None:
    op.create_table(
        "hermes_instances",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("plan", _choice("hermes_plan", "light", "heavy"), nullable=False),
        sa.Column("vm_id", sa.String(64), nullable=True),
        sa.Column("vm_ip", IpAddress(), nullable=True),
        sa.Column("proxy_token", sa.String(1024), nullable=True),
        sa.Column(
            "status",
            _choice("hermes_instance_status", "provisioning", "running", "suspended", "terminated"),
            nullable=False,
        ),
        sa.Column("stripe_subscription_id", sa.String(255), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("last_heartbeat", UtcTimestamp(), nullable=True),
        _key_of("hermes_instances", "user_id", "users.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hermes_instances")),
    )
    _unique_where("one_living_instance_per_user", "hermes_instances", "user_id", where="status != 'terminated'")
    op.create_table(
        "hermes_connections",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("service", sa.String(64), nullable=False),
        sa.Column("access_token", sa.Text(), nullable=False),
        sa.Column("refresh_token", sa.Text(), nullable=True),
        sa.Column("scopes", sa.JSON().with_variant(postgresql.ARRAY(sa.Text()), "postgresql"), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=True),
        sa.Column("connected_at", UtcTimestamp(), nullable=False),
        _instance_key("hermes_connections"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hermes_connections")),
    )
    _index("hermes_connections", "instance_id")


def _make_machines() -> None:
    op.create_table(
        "spare_machines",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("cell", sa.String(64), nullable=False),
        sa.Column("plan", sa.String(16), nullable=False),
        sa.Column("server_type", sa.String(64), nullable=False),
        sa.Column("region", sa.String(64), nullable=False),
        sa.Column("image_id", sa.String(64), nullable=True),
        sa.Column("machine_id", sa.String(64), nullable=True),
        sa.Column("wanted", sa.Boolean(name="wanted"), nullable=False),
        sa.Column("api_server_key", sa.Text(), nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("ready_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_spare_machines")),
        _instance_key("spare_machines"),
        _key_of("spare_machines", "cell", "cells.name"),
    )
    _index("spare_machines", "cell", "instance_id")
    _unique_where("one_next_machine_per_instance", "spare_machines", "instance_id", where="purpose = 'next' AND wanted")
    op.create_table(
        "machine_sightings",
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("server_type", sa.String(64), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("boot_id", sa.String(64), nullable=False),
        sa.Column("boot_seen_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("machine_id", name=op.f("pk_machine_sightings")),
    )
    op.create_table(
        "readings",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("reading", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "at", name=op.f("pk_readings")),
        _instance_key("readings"),
    )
    _index("readings", "at")


def _make_operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("intent", sa.JSON(), nullable=False),
        sa.Column(
            "status",
            _choice("operation_status", "pending", "running", "done", "failed", "abandoned"),
            nullable=False,
        ),
        sa.Column("step", sa.String(255), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("updated_at", UtcTimestamp(), nullable=False),
        _instance_key("operations"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    _index("operations", "instance_id")
    _unique_where(
        "one_unfinished_operation_per_subject",
        "operations",
        "subject",
        "kind",
        where="status IN ('pending', 'running')",
    )
    op.create_table(
        "operation_steps",
        _numbered("id"),
        sa.Column("operation_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("step", sa.String(255), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        _key_of("operation_steps", "operation_id", "operations.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation_steps")),
    )
    _index("operation_steps", "operation_id")


def _make_backups() -> None:
    op.create_table(
        "backup_repositories",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("access_key", sa.Text(), nullable=True),
        sa.Column("secret_key", sa.Text(), nullable=True),
        sa.Column("issued_at", UtcTimestamp(), nullable=True),
        sa.Column("restored_by", uuid(), nullable=True),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_backup_repositories")),
        _instance_key("backup_repositories"),
    )
    op.create_table(
        "backups",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("why", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("checked_at", UtcTimestamp(), nullable=True),
        sa.Column("checked", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backups")),
        _instance_key("backups"),
    )
    _index("backups", "instance_id")


def _make_credentials() -> None:
    op.create_table(
        "proxy_tokens",
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("purpose", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(64), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTimestamp(), nullable=False),
        sa.Column("address", sa.String(512), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("machine_id", "purpose", name=op.f("pk_proxy_tokens")),
    )
    op.create_table(
        "relay_callers",
        sa.Column("serial", sa.String(40), nullable=False),
        sa.Column("name", sa.String(31), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("issued_at", UtcTimestamp(), nullable=False),
        sa.Column("not_after", UtcTimestamp(), nullable=False),
        sa.Column("revoked_at", UtcTimestamp(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_relay_callers")),
    )
    _index("relay_callers", "name")
    op.create_table(
        "authorities",
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("certificate", name=op.f("pk_authorities")),
    )
    op.create_table(
        "certificates",
        sa.Column("serial", sa.String(40), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("cell", sa.String(64), nullable=True),
        sa.Column("issued_at", UtcTimestamp(), nullable=False),
        sa.Column("not_after", UtcTimestamp(), nullable=False),
        sa.Column("revoked_at", UtcTimestamp(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_certificates")),
        _instance_key("certificates"),
    )
    _index("certificates", "instance_id", "key", "machine_id", "not_after")
    op.create_table(
        "data_keys",
        sa.Column("volume_id", uuid(), nullable=False),
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("destroyed_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("volume_id", name=op.f("pk_data_keys")),
        _instance_key("data_keys"),
    )
    _index("data_keys", "instance_id", "machine_id")


def _make_releases() -> None:
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
    op.create_table(
        "instance_releases",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("seen_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instance_releases")),
        _instance_key("instance_releases"),
    )
    op.create_table(
        "exposures",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "release", name=op.f("pk_exposures")),
        _instance_key("exposures"),
    )
    _index("exposures", "at")


def _make_rollouts() -> None:
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
        _key_of("rollouts", "operation_id", "operations.id"),
    )
    _index("rollouts", "release")
    _make_rollout_targets()
    op.create_table(
        "rollout_events",
        _numbered("id"),
        sa.Column("rollout_id", sa.String(64), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("decision", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_events")),
        _key_of("rollout_events", "rollout_id", "rollouts.id"),
    )
    _index("rollout_events", "rollout_id")


def _make_rollout_targets() -> None:
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
        _key_of("rollout_targets", "rollout_id", "rollouts.id"),
        _instance_key("rollout_targets"),
    )
    _index("rollout_targets", "instance_id", "state")
    _unique_where("one_rollout_per_instance", "rollout_targets", "instance_id", where="held")


def _make_freezes_and_policies() -> None:
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
        _instance_key("instance_policies"),
    )


def _numbered(name: str) -> sa.Column[int]:
    # SQLite numbers rows by itself only in a column declared INTEGER.
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, autoincrement=True, nullable=False)


def _choice(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, create_constraint=True)


def _key_of(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=op.f(f"fk_{table}_{column}"))


def _instance_key(table: str) -> sa.ForeignKeyConstraint:
    return _key_of(table, "instance_id", "hermes_instances.id")


def _index(table: str, *columns: str) -> None:
    for column in columns:
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def _unique_where(name: str, table: str, *columns: str, where: str) -> None:
    rows = sa.text(where)
    op.create_index(name, table, list(columns), unique=True, sqlite_where=rows, postgresql_where=rows)
