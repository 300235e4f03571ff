"""The last turn of each job. They are few, and nothing is asked of them but by name: rows of ``meta`` hold them."""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.model.operation import JobRun, Lease, job_subject
from hermesops.registry.repositories.base import Repository, insert_or_update
from hermesops.registry.repositories.leases import require_lease
from hermesops.registry.schema.tables import meta


class JobRepository(Repository):
    """Turns of jobs."""

    def get(self, name: str) -> JobRun | None:
        """The last one; ``None`` when it was never done."""
        with self._database.reading() as connection:
            text = connection.execute(sa.select(meta.c.value).where(meta.c.name == job_subject(name))).scalar()
        return _turn(json.loads(text)) if text else None

    def begin(self, name: str, *, lease: Lease) -> None:
        """Note that somebody begins with it.

        Raises:
            LeaseLostError: The lease of the job is somebody else's by now.
        """
        self._store_run(name, lease, ended=False, done="", problem="")

    def end(self, name: str, *, done: str, problem: str, lease: Lease) -> None:
        """Note what came of it.

        Raises:
            LeaseLostError: As above; who has it now notes what comes of it.
        """
        self._store_run(name, lease, ended=True, done=done, problem=problem)

    def _store_run(self, name: str, lease: Lease, *, ended: bool, done: str, problem: str) -> None:
        with self._database.writing() as connection:
            require_lease(connection, lease)
            now = self._database.now(connection)
            kept = connection.execute(sa.select(meta.c.value).where(meta.c.name == job_subject(name))).scalar()
            began = json.loads(kept)["began_at"] if ended and kept else now.isoformat()
            values = {
                "began_at": began,
                "ended_at": now.isoformat() if ended else None,
                "done": done,
                "problem": problem,
            }
            insert_or_update(connection, meta, {"name": job_subject(name), "value": json.dumps(values)})


def _turn(values: dict[str, Any]) -> JobRun:
    ended = values["ended_at"]
    return JobRun(
        datetime.fromisoformat(values["began_at"]),
        datetime.fromisoformat(ended) if ended else None,
        str(values["done"]),
        str(values["problem"]),
    )
