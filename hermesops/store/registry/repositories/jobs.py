"""The last run of each job: JSON in rows of ``meta``, one per job."""

import json
from datetime import datetime
from typing import Any

from hermesops.model.operation import JobRun, Lease, job_subject
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.repositories.base import Repository, insert_or_update
from hermesops.store.registry.repositories.leases import require_lease
from hermesops.store.registry.schema.tables import meta


class JobRepository(Repository):
    """Last run of each job: begin, end, result."""

    def get(self, name: str) -> JobRun | None:
        """Return the last run of a job; ``None`` if it never ran."""
        with self._database.reading() as connection:
            text = read_meta(connection, job_subject(name))
        return _run(json.loads(text)) if text else None

    def begin(self, name: str, *, lease: Lease) -> None:
        """Record that a run begins.

        Raises:
            LeaseLostError: Another process has taken the job's lease.
        """
        self._store_run(name, lease, ended=False, done="", problem="")

    def end(self, name: str, *, done: str, problem: str, lease: Lease) -> None:
        """Record the end of a run, with its result or problem.

        Raises:
            LeaseLostError: As above.
        """
        self._store_run(name, lease, ended=True, done=done, problem=problem)

    def _store_run(self, name: str, lease: Lease, *, ended: bool, done: str, problem: str) -> None:
        with self._database.writing() as connection:
            require_lease(connection, lease)
            now = self._database.now(connection)
            stored = read_meta(connection, job_subject(name))
            began = json.loads(stored)["began_at"] if ended and stored else now.isoformat()
            values = {
                "began_at": began,
                "ended_at": now.isoformat() if ended else None,
                "done": done,
                "problem": problem,
            }
            insert_or_update(connection, meta, {"name": job_subject(name), "value": json.dumps(values)})


def _run(values: dict[str, Any]) -> JobRun:
    ended = values["ended_at"]
    return JobRun(
        datetime.fromisoformat(values["began_at"]),
        datetime.fromisoformat(ended) if ended else None,
        str(values["done"]),
        str(values["problem"]),
    )
