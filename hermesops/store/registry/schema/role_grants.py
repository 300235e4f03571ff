"""Rights of services on the tables: the PostgreSQL role of each has these and no others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from hermesops.store.registry.database import Database
from hermesops.store.registry.schema import schema_version
from hermesops.store.registry.schema.calling_tables import agent_callers, called_tasks, task_pushes
from hermesops.store.registry.schema.messaging_tables import (
    agent_files,
    agent_sockets,
    bot_sessions,
    incoming_messages,
    link_codes,
    messenger_accounts,
    messenger_chats,
    outgoing_messages,
)
from hermesops.store.registry.schema.operator_tables import operator_links, operator_requests
from hermesops.store.registry.schema.tables import (
    audit,
    backups,
    billing_events,
    cells,
    certificates,
    exposures,
    freezes,
    health_samples,
    hermes_instances,
    images,
    instance_details,
    instance_policies,
    instance_releases,
    leases,
    machine_observations,
    meta,
    model_budgets,
    model_usage,
    model_usage_batches,
    operation_steps,
    operations,
    proxy_tokens,
    relay_callers,
    releases,
    rollout_events,
    rollout_targets,
    rollouts,
    unassigned_machines,
    unsealed,
    users,
)
from hermesops.store.registry.schema.user_tables import (
    api_figures,
    chat_files,
    mcp_access,
    metered_usage,
    settings_copies,
    turn_approvals,
    turns,
    user_connections,
    user_plans,
    user_requests,
    web_sessions,
)

ROUTER = "router"
"""Role of the model router."""

API = "hermes_api"
"""Role of the users' API, which the internet reaches."""

CONNECTIONS = "connections"
"""Role of the process of users' connections, which the internet and agents reach."""

CONNECTOR = "connector"
"""Role of the connector, by which messengers reach agents: it seals and opens what users say, and nothing else."""

CONSOLE = "console"
"""Role of the served console: it reads what pages show, no sealed column, and adds requests of operators."""

ALL = ("*",)
"""Every column of a table, those of later revisions too."""


@dataclass(frozen=True)
class TableRights:
    """Rights of a role on one table.

    Attributes:
        select: Columns that it reads; ``insert``, ``update``: columns that it writes.
        deletes: Whether it deletes rows.
        numbers: Whether its new rows take their ``id`` from the table's sequence.
    """

    table: sa.Table
    select: tuple[str, ...] = ()
    insert: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    deletes: bool = False
    numbers: bool = False

    def each(self) -> "Iterator[Privilege]":
        """Each privilege of one column, or of the table."""
        for verb, names in (("SELECT", self.select), ("INSERT", self.insert), ("UPDATE", self.update)):
            columns = self.table.columns if names == ALL else [self.table.columns[name] for name in names]
            yield from (Privilege(verb, self.table.name, column.name) for column in columns)
        if self.deletes:
            yield Privilege("DELETE", self.table.name)
        if self.numbers:
            yield Privilege("USAGE", f"{self.table.name}_id_seq")


@dataclass(frozen=True, order=True)
class Privilege:
    """A right as PostgreSQL lists it.

    Attributes:
        name: Of a table, or of a sequence for ``USAGE``.
        column: Empty where it is of the whole table.
    """

    verb: str
    name: str
    column: str = ""


def _shown(*tables: sa.Table) -> Iterator[TableRights]:
    """The right to read every column of these tables that no key seals."""
    for table in tables:
        yield TableRights(table, select=tuple(column.name for column in unsealed(table)))


_MCP_SESSION = ("vendor_session", "vendor_url", "accounts_digest")

RIGHTS: Mapping[str, Sequence[TableRights]] = {
    ROUTER: (
        TableRights(instance_details, select=("instance_id", "model_token_generation", "model_token_floor")),
        TableRights(hermes_instances, select=("id", "plan", "vm_ip")),
        TableRights(model_budgets, select=ALL),
        TableRights(model_usage, select=ALL, insert=ALL, update=ALL),
        TableRights(model_usage_batches, select=("id",), insert=ALL),
    ),
    API: (
        TableRights(schema_version.VERSION, select=ALL),
        TableRights(users, select=("id", "alias")),
        TableRights(hermes_instances, select=("id", "user_id", "plan", "status", "created_at", "last_heartbeat")),
        TableRights(instance_details, select=("instance_id", "region", "settings_revision")),
        TableRights(model_usage, select=("day", "instance_id", "input_tokens", "output_tokens", "micros")),
        TableRights(model_budgets, select=("plan", "micros")),
        TableRights(
            turns,
            select=ALL,
            insert=("id", "user_id", "instance_id", "conversation", "client_key", "message", "state", "created_at"),
            update=(
                *("message", "state", "transcript_mark", "run_id", "sent_at", "stop_at", "ended_at", "detail"),
                *("carrier", "carried_until", "carries"),
            ),
            deletes=True,
        ),
        TableRights(
            turn_approvals,
            select=ALL,
            insert=("turn_id", "number", "asked_at", "request"),
            update=("answered_at", "choice", "request"),
            deletes=True,
        ),
        TableRights(
            chat_files,
            select=ALL,
            insert=("id", "user_id", "bytes", "created_at", "content"),
            update=("turn_id",),
            deletes=True,
        ),
        TableRights(
            agent_callers,
            select=ALL,
            insert=("id", "user_id", "instance_id", "client_key", "key_hash", "content", "may_approve", "created_at"),
            update=("used_at", "revoked_at"),
        ),
        TableRights(called_tasks, select=ALL, insert=ALL, deletes=True),
        TableRights(
            task_pushes,
            select=ALL,
            insert=("turn_id", "id", "content", "created_at", "due_at"),
            update=("content", "created_at", "sent", "tries", "due_at", "ended_at"),
            deletes=True,
        ),
        TableRights(web_sessions, select=ALL, insert=ALL, update=("tokens",), deletes=True),
        TableRights(
            user_requests,
            select=ALL,
            insert=("id", "user_id", "kind", "client_key", "body", "state", "created_at"),
        ),
        TableRights(user_plans, select=ALL),
        TableRights(metered_usage, select=("user_id", "meter", "quantity", "measured_at", "state")),
        TableRights(settings_copies, select=ALL),
        TableRights(api_figures, select=ALL, insert=ALL, update=ALL, deletes=True),
        TableRights(
            messenger_accounts,
            select=ALL,
            deletes=True,
        ),
        TableRights(
            link_codes,
            select=("code_hash", "user_id", "created_at", "expires_at"),
            insert=("code_hash", "user_id", "created_at", "expires_at"),
            deletes=True,
        ),
        TableRights(
            incoming_messages,
            select=("id",),
            insert=(*("messenger", "vendor_id", "kind", "state", "account", "vendor_chat", "body", "received_at"),),
            numbers=True,
        ),
        TableRights(
            messenger_chats,
            select=("messenger", "vendor_chat", "heard_at"),
            insert=ALL,
            update=("address", "heard_at", "noted_at"),
        ),
        TableRights(billing_events, select=("id",), insert=("body", "signature", "received_at"), numbers=True),
    ),
    CONNECTOR: (
        TableRights(schema_version.VERSION, select=ALL),
        TableRights(users, select=("id", "alias")),
        TableRights(hermes_instances, select=("id", "user_id", "plan", "status", "created_at", "last_heartbeat")),
        TableRights(instance_details, select=("instance_id", "region", "model_token_generation", "model_token_floor")),
        TableRights(messenger_accounts, select=ALL, insert=ALL, update=ALL, deletes=True),
        TableRights(messenger_chats, select=ALL, deletes=True),
        TableRights(link_codes, select=ALL, update=("used_at",)),
        TableRights(
            incoming_messages,
            select=ALL,
            update=(
                *("kind", "state", "body", "user_id", "instance_id", "fence", "tries", "sent_at", "ended_at"),
                "detail",
            ),
            insert=(*("messenger", "vendor_id", "kind", "state", "account", "vendor_chat", "body", "received_at"),),
            deletes=True,
            numbers=True,
        ),
        TableRights(
            outgoing_messages,
            select=ALL,
            insert=(
                *("origin", "part", "messenger", "vendor_chat", "instance_id", "incoming_id", "body", "state"),
                *("created_at", "file_id"),
            ),
            update=("body", "state", "vendor_id", "tries", "not_before", "ended_at", "detail"),
            deletes=True,
            numbers=True,
        ),
        TableRights(bot_sessions, select=ALL, insert=ALL, update=("seen_at",)),
        TableRights(agent_files, select=ALL, insert=ALL, deletes=True),
        TableRights(agent_sockets, select=ALL, insert=ALL, update=ALL),
    ),
    CONNECTIONS: (
        TableRights(schema_version.VERSION, select=ALL),
        TableRights(hermes_instances, select=("id", "user_id", "plan", "status", "created_at", "last_heartbeat")),
        TableRights(instance_details, select=("instance_id", "region")),
        TableRights(web_sessions, select=ALL, update=("tokens",), deletes=True),
        TableRights(user_connections, select=ALL, insert=ALL, update=ALL, deletes=True),
        TableRights(mcp_access, select=ALL, update=_MCP_SESSION),
    ),
    CONSOLE: (
        TableRights(schema_version.VERSION, select=ALL),
        *_shown(
            meta, users, cells, hermes_instances, instance_details, unassigned_machines, images, machine_observations
        ),
        *_shown(operations, operation_steps, leases, audit, health_samples, backups, certificates, relay_callers),
        *_shown(releases, instance_releases, instance_policies, rollouts, rollout_targets, rollout_events, exposures),
        *_shown(freezes, model_usage, model_budgets, operator_links),
        TableRights(proxy_tokens, select=("token_id", "machine_id", "purpose", "expires_at")),
        TableRights(incoming_messages, select=("id", "messenger", "state", "instance_id", "received_at")),
        TableRights(
            operator_requests,
            select=tuple(column.name for column in operator_requests.columns if column.name != "proof"),
            insert=(
                *("id", "operator", "action", "is_preview", "about", "subject", "form", "instance_id", "reason"),
                *("proof", "state", "created_at"),
            ),
        ),
    ),
}
"""The rights of each role. A column that the registry's own key seals is in none."""


def privileges(role: str) -> frozenset[Privilege]:
    """Every privilege of a role. Pure."""
    return frozenset(privilege for rights in RIGHTS[role] for privilege in rights.each())


def grant(database: Database) -> None:
    """Give each role its rights, and take others on these tables away; safe to call twice and from two processes.

    A role that the database's server does not have stays without.
    """
    if database.is_sqlite:
        return
    for role in RIGHTS:
        with database.reading() as connection:
            is_done = not _is_there(connection, role) or _held(connection, role) == privileges(role)
        if is_done:
            continue
        with database.writing(guarded=False) as connection:
            # Two grants on one table at once end in "tuple concurrently updated": PostgreSQL locks no catalogue.
            schema_version.lock(database, connection)
            for statement in _statements(role, _held(connection, role)):
                connection.exec_driver_sql(statement)


def _statements(role: str, held: frozenset[Privilege]) -> Iterator[str]:
    """Statements that lead from the rights held to those of the role. Pure.

    Revoking a right on a table revokes it on each column, so that rights are taken first and given then.
    """
    wanted = privileges(role)
    for name in sorted({each.name for each in held - wanted}):
        yield f"REVOKE ALL ON {_kind(name, held)} {name} FROM {role}"
    yield f"GRANT USAGE ON SCHEMA public TO {role}"
    columns: dict[tuple[str, str], list[str]] = {}
    for each in sorted(wanted):
        columns.setdefault((each.verb, each.name), []).extend(filter(None, [each.column]))
    for (verb, name), names in columns.items():
        listed = f" ({', '.join(names)})" if names else ""
        yield f"GRANT {verb}{listed} ON {_kind(name, wanted)} {name} TO {role}"


def _kind(name: str, among: frozenset[Privilege]) -> str:
    return "SEQUENCE" if Privilege("USAGE", name) in among else "TABLE"


def _is_there(connection: sa.Connection, role: str) -> bool:
    roles = sa.table("pg_roles", sa.column("rolname"))
    return connection.execute(sa.select(roles).where(roles.c.rolname == role)).first() is not None


def _held(connection: sa.Connection, role: str) -> frozenset[Privilege]:
    """The role's own rights on tables of the schema ``public``. Source: PostgreSQL's manual, 37.42 and 37.43."""
    query = sa.text(
        "SELECT privilege_type, table_name, column_name FROM information_schema.role_column_grants"
        " WHERE grantee = :role AND table_schema = 'public' "
        "UNION SELECT privilege_type, table_name, '' FROM information_schema.role_table_grants"
        " WHERE grantee = :role AND table_schema = 'public'"
        " AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') "
        "UNION SELECT privilege_type, object_name, '' FROM information_schema.role_usage_grants"
        " WHERE grantee = :role AND object_schema = 'public' AND object_type = 'SEQUENCE'"
    )
    return frozenset(Privilege(*map(str, row)) for row in connection.execute(query, {"role": role}))
