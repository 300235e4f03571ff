"""Rows of ``operator_links``: pages that operators of the served console keep by a name, each their own."""

import sqlalchemy as sa

from hermesops.errors import UsageError
from hermesops.store.registry.repositories.base import Repository, lock_rows
from hermesops.store.registry.schema.operator_tables import operator_links

MOST = 20
"""Links of an operator."""

_COLUMNS = operator_links.c


class OperatorLinkRepository(Repository):
    """Links of operators; no audit entry names them, as they change nothing else."""

    def list(self, operator: str) -> tuple[tuple[str, str], ...]:
        """Name and page of each link of an operator, in the order of the names."""
        query = sa.select(_COLUMNS.name, _COLUMNS.page).where(_COLUMNS.operator == operator).order_by(_COLUMNS.name)
        return tuple((row.name, row.page) for row in self._rows(query))

    def keep(self, operator: str, name: str, page: str) -> None:
        """Keep a page by a name; one of that name is replaced.

        Raises:
            UsageError: The operator has too many.
        """
        others = sa.select(sa.func.count()).where(_COLUMNS.operator == operator, _COLUMNS.name != name)
        with self._database.writing() as connection:
            lock_rows(self._database, connection, operator_links, operator)
            if connection.execute(others).scalar_one() >= MOST:
                raise UsageError(f"{MOST} links are kept; remove one first", field="name")
            connection.execute(_deleted(operator, name))
            connection.execute(operator_links.insert().values(operator=operator, name=name, page=page))

    def forget(self, operator: str, name: str) -> None:
        """Forget a link; nothing happens where the operator has none of that name."""
        with self._database.writing() as connection:
            connection.execute(_deleted(operator, name))


def _deleted(operator: str, name: str) -> sa.Delete:
    return operator_links.delete().where(_COLUMNS.operator == operator, _COLUMNS.name == name)
