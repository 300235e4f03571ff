"""The queue of tasks, kept by DBOS: the only module that knows DBOS.

It has no state of its own. Its tables may be lost at any moment: they are made again and filled from the rows.

Source: dbos 3.4.0. Gaps of DBOS, and their solutions here: work of a dead process stays its own
(``dispatch`` gives it to another one); two processes of one executor id run the same work (ids are a worker's own, with
a random part); work is pinned to an application version (ours is a number, raised when a task's argument changes its
meaning); nothing is ever removed (``prune``).
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import sqlalchemy as sa
import structlog

from hermesops.base import child_environment
from hermesops.base.files.disk import sqlite_not_written, writing
from hermesops.base.files.private_file import close_to_others
from hermesops.base.files.sqlite_wal import enable_wal
from hermesops.errors import BrokenInvariantError, HermesError, Hint, UnavailableError
from hermesops.model.ids import OperationId
from hermesops.model.operation import LONGEST_PAUSE_S
from hermesops.store.operations.dispatch import Task

with child_environment.without_asking_for_architecture():
    from dbos import DBOS, DBOSConfig, EnqueueOptions

_VERSION = "1"
_TASK = "turn"
_POLL_S = 0.2
_KEPT = timedelta(hours=1)
"""How long ended tasks are kept, for inspection."""

_FIRST_DELAY_S = 2.0

_RUNNING = "PENDING"
_UNFINISHED = ["ENQUEUED", "DELAYED", _RUNNING]
_OVER = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]

_ALIKE = 40
"""Characters by which two messages of DBOS count as the same."""

_SILENCE_S = 30.0

_log = structlog.get_logger(__name__)

RunOperation = Callable[[OperationId], Awaitable[bool]]
"""Works on an operation; whether another turn is to follow after a while."""


def delay_s(turns: int) -> float:
    """Seconds from the end of the so many-th turn that failed to the next one."""
    return float(min(_FIRST_DELAY_S * 2 ** min(turns - 1, 20), LONGEST_PAUSE_S))


class DbosQueue:
    """The queue as one worker uses it. A process has at most one.

    Args:
        url: Database that DBOS keeps its tables in.
        environment: Name of the environment; its queue is its own.
        worker: Our id; no other process has ever had it.
        concurrency: Turns at once on each worker; the last worker that was started says it for all.
    """

    def __init__(self, url: str, *, environment: str, worker: str, concurrency: int, turn: RunOperation) -> None:
        self._name = f"hermesops-{environment}"
        self._url = url
        self._concurrency = concurrency
        self._turn = turn
        self._config: DBOSConfig = {
            "name": self._name,
            "system_database_url": url,
            "executor_id": worker,
            "application_version": _VERSION,
            "enable_otlp": False,
            "log_level": "WARNING",
        }

    async def open(self) -> None:
        """Make DBOS's tables unless they are there, and begin to take turns, on the loop that runs now.

        Raises:
            UnavailableError: The database does not answer.
            NotWrittenError: Its file's disk is full or read-only.
            BrokenInvariantError: Its file is damaged.
        """
        _redirect_log()
        try:
            _prepare(self._url)
            DBOS(config=self._config)
            DBOS.workflow(name=_TASK)(self._task())
            DBOS.listen_queues([self._name])
            DBOS.launch()
            await DBOS.register_queue_async(
                self._name,
                worker_concurrency=self._concurrency,
                polling_interval_sec=_POLL_S,
                on_conflict="always_update",
            )
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise _as_ours(self._url, "does not open", error) from error

    async def close(self) -> None:
        """Take no more turns and let go of the database; turns under way have ended before."""
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)

    async def tasks(self) -> list[Task]:
        """The tasks that have not ended; an empty list right after the tables were lost.

        Raises:
            UnavailableError: The database does not answer.
        """
        workflows = await self._asked(
            lambda: DBOS.list_workflows_async(
                status=_UNFINISHED, queue_name=self._name, load_input=False, load_output=False
            )
        )
        return [
            Task(
                workflow.workflow_id,
                _operation_of(workflow.workflow_id),
                workflow.executor_id or "" if workflow.status == _RUNNING else "",
            )
            for workflow in workflows or ()
        ]

    async def enqueue(self, operation_id: OperationId) -> None:
        """Put a turn at an operation into the queue, unless one is in it already."""
        options: EnqueueOptions = {
            "workflow_name": _TASK,
            "queue_name": self._name,
            "workflow_id": f"{operation_id}:{token_hex(4)}:1",
            "app_version": _VERSION,
            "deduplication_id": operation_id,
            "duplication_policy": "return-existing",
        }
        await self._asked(lambda: DBOS.enqueue_workflow_with_options_async(options))

    async def revive(self, task_ids: Sequence[str]) -> None:
        """Return tasks of dead workers to the queue; results of such a worker are not recorded any more."""
        await self._asked(lambda: DBOS.resume_workflows_async(list(task_ids), queue_name=self._name))

    async def prune(self) -> None:
        """Remove tasks that ended a while ago."""
        before = (datetime.now(UTC) - _KEPT).isoformat()
        ended = await self._asked(
            lambda: DBOS.list_workflows_async(
                status=_OVER, name=_TASK, end_time=before, limit=1000, load_input=False, load_output=False
            )
        )
        if ended:
            await self._asked(lambda: DBOS.delete_workflows_async([workflow.workflow_id for workflow in ended]))

    def _task(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Task that DBOS runs. Has no DBOS steps, because a turn observes and needs no saved progress."""

        async def turn() -> None:
            task_id = DBOS.workflow_id or ""
            if not await self._turn(_operation_of(task_id)):
                return
            stem, _, number = task_id.rpartition(":")
            options: EnqueueOptions = {
                "workflow_name": _TASK,
                "queue_name": self._name,
                "workflow_id": f"{stem}:{int(number) + 1}",
                "app_version": _VERSION,
                "delay_seconds": delay_s(int(number)),
            }
            await DBOS.enqueue_workflow_with_options_async(options)

        return turn

    async def _asked(self, ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - whatever DBOS answers
        try:
            return await ask()
        except (sa.exc.ProgrammingError, sa.exc.OperationalError) as error:
            if not _is_table_missing(error):
                raise _as_ours(self._url, "does not answer", error) from error
            _log.warning("queue_tables_lost", queue=self._name)
            # A new DBOS: beside the threads of the old one, PostgreSQL waits with every index for their end.
            await self.close()
            await self.open()
            return None


def _operation_of(task_id: str) -> OperationId:
    return OperationId(task_id.partition(":")[0])


def _prepare(url: str) -> None:
    """Make SQLite's file, readable by its owner only, with a write-ahead log, which is twice as fast and stays set."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        with writing(Path(parsed.database)):
            os.close(os.open(parsed.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        close_to_others(Path(parsed.database))
        with closing(sqlite3.connect(parsed.database, isolation_level=None)) as connection:
            enable_wal(connection.execute)


def _is_table_missing(error: sa.exc.DBAPIError) -> bool:
    message = str(error.orig).lower()
    return "no such table" in message or (
        "does not exist" in message and ("relation" in message or "schema" in message)
    )


def _as_ours(url: str, what: str, error: Exception) -> HermesError:
    parsed = sa.make_url(url)
    where = parsed.database if parsed.get_backend_name() == "sqlite" else parsed.render_as_string(hide_password=True)
    cause = getattr(error, "orig", None) or error
    if refused := sqlite_not_written(where or "", cause):
        return refused
    if (getattr(cause, "sqlite_errorname", "") or "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return BrokenInvariantError(
            f"the workers' queue {where} is damaged: {_first_line(error)}",
            hint=Hint(f"mv {where} {where}.damaged, then", ("worker",), "makes a new one from the registry"),
        )
    return UnavailableError(
        f"the workers' queue {where} {what}: {_first_line(error)}",
        hint=Hint(("doctor",), "checks disks and registry;", ("settings", "show"), "shows the configured registry"),
    )


def _first_line(error: Exception) -> str:
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["it said nothing"])[0]


class _ToStructlog(logging.Handler):
    """Forwards DBOS's log records, and repeated ones only now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        words = (record.getMessage().splitlines() or [""])[0]
        now, beginning = time.monotonic(), words[:_ALIKE]
        if now - self._said.get(beginning, -_SILENCE_S) >= _SILENCE_S:
            self._said[beginning] = now
            _log.warning("dbos_said", words=words, level_of_dbos=record.levelname)


def _redirect_log() -> None:
    """Send DBOS's log to ours; DBOS adds a handler only if there is none."""
    logger = logging.getLogger("dbos")
    logger.handlers[:] = [_ToStructlog()]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
