"""The table of files in an agent's home: for backup, digest, data export and rollback, by the release that writes them.

A name that is in no row belongs to the user: it is backed up, and nothing else reads it. So an unknown file of a newer
agent costs space, and is never lost.

Sources: hermes-agent 0.19.0, the files of its runs and ``get_hermes_home()`` in its modules; for 0.21 and 0.22 the
names in upstream's issues and the files of a third party's build of a later tree, observed by hand on 2026-11-29.
"""

from dataclasses import dataclass
from enum import StrEnum


class FileClass(StrEnum):
    """The treatment of a file.

    ``state`` and ``database`` are the user's: backed up, and a database as one moment of it. ``log`` is backed up, and
    means nothing to a digest. ``process`` belongs to a running process, ``lock`` is a lock or a journal, ``cache`` is
    made again, ``diagnosis`` is for the agent's developers, ``scratch`` is work in progress: none of these is copied.
    """

    STATE = "state"
    DATABASE = "database"
    LOG = "log"
    PROCESS = "process"
    LOCK = "lock"
    CACHE = "cache"
    DIAGNOSIS = "diagnosis"
    SCRATCH = "scratch"

    @property
    def is_copied(self) -> bool:
        """Whether a backup has it."""
        return self in {FileClass.STATE, FileClass.DATABASE, FileClass.LOG}


@dataclass(frozen=True)
class AgentFile:
    """A file or folder below the home.

    Attributes:
        name: A folder stands for everything below it; a ``*`` at the end for any end of a name.
        file_class: Its treatment.
        since: The first release that is known to write it.
        digest: The part of the digest that counts it; empty for none.
        export: The table of the data export that has it; empty for none.
    """

    name: bytes
    file_class: FileClass
    since: str = "0.19"
    digest: str = ""
    export: str = ""


def _rows(file_class: FileClass, since: str, names: str) -> tuple[AgentFile, ...]:
    return tuple(AgentFile(name, file_class, since) for name in names.encode().split())


AGENT_FILES: tuple[AgentFile, ...] = (
    AgentFile(b"state.db", FileClass.DATABASE, digest="sessions, messages", export="sessions, conversations"),
    AgentFile(b"memories", FileClass.STATE, digest="memory", export="memory"),
    AgentFile(b"SOUL.md", FileClass.STATE, digest="memory", export="memory"),
    AgentFile(b"skills", FileClass.STATE, digest="skills", export="skills"),
    AgentFile(b"cron/jobs.json", FileClass.STATE, digest="cron", export="cron"),
    AgentFile(b"platforms/pairing", FileClass.STATE, digest="pairings", export="pairings"),
    AgentFile(b"pairing", FileClass.STATE, digest="pairings", export="pairings"),
    AgentFile(b"a2a_conversations", FileClass.STATE, "0.20", export="a2a_conversations"),
    *_rows(FileClass.STATE, "0.19", "config.yaml .env auth.json cron/output channel_directory.json"),
    *_rows(FileClass.STATE, "0.21", "pending_messages plugin-data backups/config"),
    *_rows(
        FileClass.DATABASE,
        "0.19",
        "cron/executions.db kanban.db memory_store.db projects.db response_store.db verification_evidence.db",
    ),
    # Keys of requests that a caller may repeat for a day: without it a repeated request runs a second time.
    *_rows(FileClass.DATABASE, "0.21", "runs_idempotency.db"),
    *_rows(FileClass.LOG, "0.19", "logs/agent.log* logs/errors.log* logs/gateway.log*"),
    *_rows(FileClass.LOG, "0.20", "a2a_audit.jsonl"),
    *_rows(FileClass.LOG, "0.21", "cron/usage_audit.jsonl cron/inflight_forced_releases.jsonl"),
    *_rows(
        FileClass.PROCESS,
        "0.19",
        ".clean_shutdown .drain_request.json .restart_pending.json .update_check gateway-starts.log "
        "gateway.pid gateway_state.json state/gateway.heartbeat cron/ticker_heartbeat "
        "cron/ticker_last_success",
    ),
    *_rows(
        FileClass.PROCESS,
        "0.21",
        "gateway.sock state/gateway.loop-tick.* state/gateway.lifecycle.json .local/state/hermes "
        "plugin-update-checks serve_restart_pending cron/external-workers",
    ),
    *_rows(FileClass.LOCK, "0.19", "gateway.lock auth.lock cron/.jobs.lock cron/.tick.lock"),
    *_rows(
        FileClass.LOCK,
        "0.21",
        "state.db.auto-maintenance.lock state.db.repair.lock state.db.quarantine.lock skills/.locks "
        "state.db.fts_rebuild.lock .mcp-discovery.lock",
    ),
    # What documents and delegations leave in the cache is the user's; the rest of it is made again.
    *_rows(
        FileClass.CACHE,
        "0.19",
        ".cache audio_cache image_cache cache/audio cache/images cache/web cache/vision cache/screenshots "
        "cache/video cache/videos cache/piper-voices",
    ),
    *_rows(
        FileClass.CACHE,
        "0.21",
        "cache/banner_snapshot.json cache/openrouter_curated_catalog.json cache/plugin-catalog.json "
        "cache/plugin_host cache/plugin_toolset_keys.json cache/project_skill_scans "
        "cache/reasoning_caps.json cache/router_catalog.json cache/schema_columns.json "
        "cache/tool_discovery_cache.json cache/whisper.cpp cache/wakewords "
        "cache/worktree_merge_verdicts.json",
    ),
    # The shutdown log has the command lines of every process of the machine, a request's dump a whole conversation.
    *_rows(
        FileClass.DIAGNOSIS, "0.19", "logs/gateway-exit-diag.log logs/gateway-shutdown-diag.log sessions/request_dump_*"
    ),
    *_rows(
        FileClass.DIAGNOSIS,
        "0.21",
        "logs/update_receipts logs/gateway_faulthandler.log logs/scratch-prune.log* logs/process-results "
        "telemetry/shared_metrics",
    ),
    # A shell's snapshot in it has the environment of terminal commands; 0.19 keeps that in the unit's own /tmp.
    *_rows(FileClass.SCRATCH, "0.21", "cache/scratch cache/terminal cache/terminal-output cache/exec"),
)
"""Every file that a release is known to write, and that is not the user's alone."""

LOCK_ENDINGS = (b".lock", b"-wal", b"-shm", b"-journal")
"""Ends of the names of locks and of databases' journals, wherever they are."""

DATABASES = frozenset(file.name for file in AGENT_FILES if file.file_class is FileClass.DATABASE)
"""Databases of the agent's own."""

_NOT_COPIED = frozenset(file.name for file in AGENT_FILES if not file.file_class.is_copied and file.name[-1:] != b"*")
_BEGINNINGS = tuple(file.name[:-1] for file in AGENT_FILES if not file.file_class.is_copied and file.name[-1:] == b"*")


def is_copied(name: bytes) -> bool:
    """Whether a backup has a file or folder, by the table alone. A folder that it leaves out is not looked into.

    ``name`` is below the home.
    """
    return name not in _NOT_COPIED and not name.startswith(_BEGINNINGS) and not name.endswith(LOCK_ENDINGS)


def row_of(name: bytes) -> AgentFile | None:
    """The row of a file: its own, that of its beginning, or that of the nearest folder above it."""
    rows = {file.name: file for file in AGENT_FILES}
    while name:
        if name in rows:
            return rows[name]
        begun = (file for file in AGENT_FILES if file.name[-1:] == b"*" and name.startswith(file.name[:-1]))
        if (row := next(begun, None)) is not None:
            return row
        name = name.rpartition(b"/")[0]
    return None
