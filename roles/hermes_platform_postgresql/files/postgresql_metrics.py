#!/usr/bin/python3 -I
"""Writes figures of PostgreSQL and its backups, for Prometheus, into the file that is its argument.

Asks the server on this host over its socket, and pgBackRest for what is in the bucket. What does not answer has no
figure but ``up`` 0: an old figure would look like a good one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PREFIX = "hermes_platform_postgresql"
TIMEOUT_S = 30.0
ARCHIVER = """
SELECT archived_count, failed_count, coalesce(extract(epoch FROM last_archived_time), 0)::bigint,
  (SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'),
  pg_database_size('hermesops'), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
FROM pg_stat_archiver
"""
FIGURES = (
    "log_segments_archived_total",
    "log_segments_failed_total",
    "log_archived_timestamp_seconds",
    "log_segments_waiting",
    "size_bytes",
    "connections",
)


def main() -> None:
    """Write the file at once."""
    file = Path(sys.argv[1])
    lines = [*server(sys.argv[2:]), *backups()]
    draft = file.with_name(f".{file.name}")
    draft.write_text("".join(f"{PREFIX}_{line}\n" for line in lines))
    draft.chmod(0o644)
    draft.rename(file)


def server(psql: list[str]) -> list[str]:
    """Figures of the server."""
    said = output([*psql, "--field-separator= ", f"--command={ARCHIVER}"])
    if said is None:
        return ["up 0"]
    return ["up 1", *(f"{name} {value}" for name, value in zip(FIGURES, said.split(), strict=True))]


def backups() -> list[str]:
    """When the newest backup of each type ended, and whether pgBackRest is content; nothing without a bucket."""
    if "PGBACKREST_CONFIG" not in os.environ:
        return []
    said = output(["/usr/bin/pgbackrest", "--stanza=hermesops", "info", "--output=json"])
    [stanza] = json.loads(said) if said else [{}]
    ended: dict[str, int] = {}
    for backup in stanza.get("backup", ()):
        ended[backup["type"]] = max(backup["timestamp"]["stop"], ended.get(backup["type"], 0))
    is_content = int(stanza.get("status", {}).get("code", -1) == 0)
    newest = [f'backup_timestamp_seconds{{type="{kind}"}} {at}' for kind, at in sorted(ended.items())]
    return [f"repository_up {is_content}", *newest]


def output(command: list[str]) -> str | None:
    """What a command prints; ``None`` when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


if __name__ == "__main__":
    main()
