"""Accounts and usage in the platform's PostgreSQL, with the rights of the role ``router`` and no more.

The statements are all that a router needs of the registry; ``store.registry.schema.role_grants`` gives its role the
rights to these and no others.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from hermesops.errors import UnavailableError
from hermesops.model.billing.model_usage import Account, Spent, Usage
from hermesops.model.ids import InstanceId

_ANSWER_MS = 10_000
_CONNECT_S = 5

ACCOUNTS = """
SELECT d.instance_id::text, coalesce(d.model_token_floor, d.model_token_generation), b.tokens, b.micros,
       coalesce(u.tokens, 0)::bigint, coalesce(u.micros, 0)::bigint, coalesce(host(i.vm_ip), ''), i.plan::text
FROM instance_details d
JOIN hermes_instances i ON i.id = d.instance_id
LEFT JOIN model_budgets b ON b.plan = i.plan::text
LEFT JOIN (
    SELECT instance_id, sum(input_tokens + output_tokens) AS tokens, sum(micros) AS micros FROM model_usage
    WHERE day >= date_trunc('month', now() AT TIME ZONE 'UTC')::date GROUP BY instance_id
) u ON u.instance_id = d.instance_id
"""

_BATCH = "INSERT INTO model_usage_batches (id, at) VALUES (%s, now()) ON CONFLICT (id) DO NOTHING"

_ADD = """
INSERT INTO model_usage AS held
    (day, instance_id, model, provider, outcome, requests, input_tokens, output_tokens, micros)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (day, instance_id, model, provider, outcome) DO UPDATE SET
    requests = held.requests + excluded.requests,
    input_tokens = held.input_tokens + excluded.input_tokens,
    output_tokens = held.output_tokens + excluded.output_tokens,
    micros = held.micros + excluded.micros
"""


class PostgresLedger:
    """The registry's tables, over one connection that is reopened after it is lost.

    Args:
        url: As libpq reads it: a ``postgresql://`` URL with its certificates.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def read(self) -> Mapping[InstanceId, Account]:
        """Each instance's account, including terminated instances.

        Raises:
            UnavailableError: The database does not answer.
        """
        with self._transaction() as connection:
            rows = connection.execute(ACCOUNTS).fetchall()
        return {
            InstanceId(str(instance)): Account(int(floor), tokens, micros, Spent(used, spent), address, plan)
            for instance, floor, tokens, micros, used, spent, address, plan in rows
        }

    def write(self, batch: str, rows: Sequence[Usage]) -> None:
        """Add a batch, unless a batch of this id exists.

        Raises:
            UnavailableError: The database does not answer.
        """
        values = [
            (
                r.day,
                r.instance_id,
                r.model,
                r.provider,
                r.outcome,
                r.requests,
                r.input_tokens,
                r.output_tokens,
                r.micros,
            )
            for r in rows
        ]
        with self._transaction() as connection:
            if connection.execute(_BATCH, (batch,)).rowcount:
                connection.cursor().executemany(_ADD, values)

    def close(self) -> None:
        """Close the connection to the database."""
        if self._connection:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            if self._connection is None or self._connection.closed:
                options = f"-c statement_timeout={_ANSWER_MS} -c lock_timeout={_ANSWER_MS}"
                self._connection = psycopg.connect(
                    self._url,
                    connect_timeout=_CONNECT_S,
                    application_name="hermesops-router",
                    options=options,
                    # A host that vanished is noticed, whatever the kernel's defaults are.
                    keepalives_idle=5,
                    keepalives_interval=2,
                    keepalives_count=3,
                    tcp_user_timeout=_ANSWER_MS,
                )
            with self._connection.transaction():
                yield self._connection
        except psycopg.Error as error:
            self.close()
            # The first line alone: further ones may repeat values.
            raise UnavailableError(
                f"the registry does not answer: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            ) from error
