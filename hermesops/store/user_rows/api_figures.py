"""Rows of ``api_figures``: what each process of the API counted in the last minutes."""

from datetime import timedelta

import sqlalchemy as sa

from hermesops.model.api_figures import RequestFigures
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.user_tables import api_figures

_KEPT = timedelta(hours=1)


class ApiFigures:
    """Figures that processes of the API write each minute, for operators and alerts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, process: str, figures: RequestFigures) -> None:
        """Replace a process's figures, and forget processes that wrote none for an hour.

        Raises:
            UnavailableError: The database does not answer.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            insert_or_update(connection, api_figures, {"process": process, "written_at": now, **vars(figures)})
            connection.execute(sa.delete(api_figures).where(api_figures.c.written_at < now - _KEPT))
