"""Tables of the served console: requests of its operators, and the links that they keep.

Its process adds requests, and reads both; workers decide the requests and write the links.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.messaging_tables import metadata

__all__ = ["metadata", "operator_links", "operator_requests"]

operator_requests = sa.Table(
    "operator_requests",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    # The name that the console gives; workers believe the proof alone.
    sa.Column("operator", sa.String(255), nullable=False),
    # Texts and not enumerations of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("action", sa.String(32), nullable=False),
    sa.Column("is_preview", sa.Boolean(name="is_preview"), nullable=False),
    # Of the subject, as addresses of pages have both; the values of the action are a JSON object of texts.
    sa.Column("about", sa.String(16), nullable=False, server_default="instances"),
    sa.Column("subject", sa.String(128), nullable=False, server_default=""),
    sa.Column("form", sa.String(16384), nullable=False, server_default="{}"),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=True, index=True),
    sa.Column("reason", sa.Text, nullable=False),
    # The operator's ID token, which counts for a quarter of an hour; NULL once the request was decided.
    sa.Column("proof", sa.Text, nullable=True),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("detail", sa.Text, nullable=False, server_default=""),
    sa.Column("answer", sa.Text, nullable=False, server_default=""),
    sa.Column("code", sa.String(16), nullable=False, server_default=""),
    sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("decided_at", UtcTimestamp, nullable=True),
)

operator_links = sa.Table(
    "operator_links",
    metadata,
    # The name that a token of the issuer proved.
    sa.Column("operator", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(60), primary_key=True),
    sa.Column("page", sa.String(1024), nullable=False),
)
