"""The last run of the roles of a local world's platform, in a file: no preview shows their changes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hermesops.errors import HermesError
from hermesops.localcloud.world.files import write_private
from hermesops.wire.foreign_text import one_line

_UNPREVIEWED = "its roles are not previewed"


@dataclass(frozen=True)
class RolesState:
    """The last time that they were applied.

    Attributes:
        at: When that began; ``None`` for never, as far as this world knows.
        is_done: Whether it came to its end.
        error: What it failed with; empty where it was done, or killed.
    """

    at: datetime | None = None
    is_done: bool = False
    error: str = ""

    @property
    def told(self) -> str:
        """The last run of the roles and the effect of ``up``, as a line for the operator."""
        if self.at is None:
            return f"{_UNPREVIEWED}: nothing is noted of an earlier run, up applies them"
        on = f"{self.at:%Y-%m-%d %H:%M} UTC"
        if self.is_done:
            return f"{_UNPREVIEWED}: they were applied on {on}, up applies them again where something differs"
        failed = f"failed on {on} ({self.error})" if self.error else f"were interrupted on {on}"
        return f"{_UNPREVIEWED}: they {failed}, up applies them again"


@dataclass(frozen=True)
class RolesRecord:
    """Keeps that in a file of the world."""

    file: Path
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def read(self) -> RolesState:
        """The last time; a file that cannot be read counts as none."""
        try:
            record = json.loads(self.file.read_text())
            return RolesState(
                datetime.fromisoformat(record["at"]), bool(record["done"]), one_line(str(record["error"]))
            )
        except (OSError, ValueError, KeyError, TypeError):
            return RolesState()

    def begin(self) -> datetime:
        """Note that they are being applied: a process that is killed notes no end."""
        at = self.now()
        self._write(at, is_done=False)
        return at

    def end(self, at: datetime, error: HermesError | None = None) -> None:
        """Note how that came to its end."""
        self._write(at, is_done=error is None, error=error.message if error else "")

    def _write(self, at: datetime, *, is_done: bool, error: str = "") -> None:
        record = {"at": at.isoformat(), "done": is_done, "error": one_line(error)}
        write_private(self.file, json.dumps(record).encode())
