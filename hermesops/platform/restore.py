"""Restores the database of a platform of one machine to a moment, from the object store on the same host.

Killed anywhere, the same once more finishes: a note on the host says which moment it is, and where the database of
before was set aside. That one is kept: nothing is overwritten.
"""

import asyncio
import re
import shlex
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hermesops.access.registry_place import RestoredEpoch
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.access.audit import ChainReport
from hermesops.platform.connection.connect import UNITS
from hermesops.platform.host import Part, run_on_host
from hermesops.platform.parts.control import ControlPart
from hermesops.platform.parts.database import DatabasePart
from hermesops.platform.parts.users import USERS_DOWN, USERS_UP
from hermesops.vendor.channel import Channel
from hermesops.wire.foreign_text import quoted

LATEST = "latest"
"""The last change that reached the object store."""

_FOLDER = "/var/lib/hermes-platform/postgresql"
_NOTE = f"{_FOLDER}.restoring"
_SERVER = "hermes-platform-postgresql.service"
_ASIDE = re.compile(rf"{_FOLDER}\.[0-9]{{8}}T[0-9]{{6}}Z", re.ASCII)
_SHOWN = 100
_SET_ASIDE_S = 180.0

# $1 the moment. What is written up to now reaches the object store first, where the database still runs. The note is
# whole or not there. Once the database of before is aside, the folder holds what an unfinished restore wrote: the same
# moment goes on with it, another one begins anew.
_SET_ASIDE = f"""\
set -eu
moment=
if [ -e {_NOTE} ]; then
  read -r stamp moment <{_NOTE}
else
  timeout 60 hermes-pgbackrest check >/dev/null 2>&1 || true
  stamp=$(date -u +%Y%m%dT%H%M%SZ)
fi
{USERS_DOWN}
systemctl disable --quiet --now {" ".join(UNITS)}
systemctl stop {_SERVER} 2>/dev/null || true
if [ "$moment" != "$1" ]; then
  if [ -e "{_FOLDER}.$stamp" ]; then rm -rf {_FOLDER}; fi
  printf '%s %s\\n' "$stamp" "$1" >{_NOTE}.new
  sync {_NOTE}.new
  mv {_NOTE}.new {_NOTE}
fi
if [ ! -e "{_FOLDER}.$stamp" ] && [ -e {_FOLDER} ]; then mv --no-target-directory {_FOLDER} "{_FOLDER}.$stamp"; fi
echo "{_FOLDER}.$stamp"
"""


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    Attributes:
        target: The time, as pgBackRest was told it.
        set_aside: Folder on the host with the database of before.
        epoch: Of the registry, which began with it; 0 where no environment uses this database.
        audit: Of the registry, verified against the anchor; ``None`` where no environment uses this database.
        seconds: From the command to the running platform.
    """

    target: str
    set_aside: str
    epoch: int
    seconds: float
    audit: ChainReport | None = None


def target_of(at: datetime | None, now: datetime) -> str:
    """A moment as pgBackRest reads it; ``None`` is the last change there is. Pure.

    Raises:
        UsageError: The moment is in the future.
    """
    if at and at > now:
        raise UsageError(f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC is in the future")
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S+00}" if at else LATEST


@dataclass(frozen=True)
class DatabaseRestore:
    """Restores the database of one platform.

    Args:
        channel: To its host.
        apply: Applies the platform's roles, with what the database is restored to.
        open_epoch: Ends every lease from before in the restored registry, and verifies its audit; ``None`` where no
            environment uses this database. It blocks.
    """

    channel: Channel
    apply: Callable[[str], Awaitable[object]]
    open_epoch: Callable[[], RestoredEpoch] | None
    report: Callable[[str], None]

    async def run(self, target: str) -> Restored:
        """Restore the database to a moment.

        Raises:
            PartlyDoneError: The role failed, as for a moment that no backup reaches; the database of before is kept.
            UnavailableError: The host does not answer; the same command goes on.
        """
        begun = time.monotonic()
        self.report("setting the previous database aside")
        set_aside = await self._set_aside(target)
        await self.apply(target)
        begun_epoch = await asyncio.to_thread(self.open_epoch) if self.open_epoch else None
        if begun_epoch:
            self.report(begun_epoch.audit.told)
        if self.open_epoch:
            await run_on_host(self.channel, f"systemctl enable --quiet --now {' '.join(UNITS)}")
            await run_on_host(self.channel, USERS_UP)
        await run_on_host(self.channel, f"rm -f {_NOTE}")
        epoch, audit = (begun_epoch.epoch, begun_epoch.audit) if begun_epoch else (0, None)
        return Restored(target, set_aside, epoch, round(time.monotonic() - begun, 1), audit)

    async def _set_aside(self, target: str) -> str:
        line = f"sh -c {shlex.quote(_SET_ASIDE)} sh {shlex.quote(target)}"
        what = "to set its database aside"
        folder = await run_on_host(self.channel, line, what=what, timeout_s=_SET_ASIDE_S)
        if not _ASIDE.fullmatch(folder):
            raise UnavailableError(f"the platform's host says {quoted(folder, longest=_SHOWN)} when asked {what}")
        return folder


def restoring(part: Part, target: str) -> Part:
    """A part as it is applied during the restore: no process uses a registry before its new epoch has begun."""
    if isinstance(part, DatabasePart):
        return replace(part, restore_to=target)
    return replace(part, is_connected=False) if isinstance(part, ControlPart) else part
