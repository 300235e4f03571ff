"""The copies of a stack's state: lists them, and restores one.

Nothing here reads machines: after a restore, a refresh or a preview shows the differences.
"""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermesops.errors import RefusedError
from hermesops.infra.engine.embedded.state.deployment import flaws
from hermesops.infra.engine.embedded.state.file_backend import FileBackend, ended_now
from hermesops.model.stack import StackRef, StateVersion
from hermesops.model.unknown_name import unknown_name

_STAMP = re.compile(r"[.-](\d+)\.(?:history\.)?json$")
_NS = 1_000_000_000


@dataclass(frozen=True)
class _Copy:
    """A copy as it was read, so that the checked bytes are the restored ones."""

    name: str
    content: bytes

    def version(self, what: str, latest: Mapping[str, Any] | None, present: bytes | None) -> StateVersion:
        """Describe it; ``latest`` is ``None`` where it cannot be read."""
        stamp = _stamp(self.name)
        resources = None if latest is None else len(latest.get("resources") or ())
        at = datetime.fromtimestamp(int(stamp) / _NS, UTC)
        return StateVersion(stamp, at, what, resources, self.content == present)


@dataclass(frozen=True)
class Versions:
    """The copies of one stack's state. The caller of ``restore`` holds the stack's lock."""

    backend: FileBackend
    ref: StackRef

    def newest(self, limit: int) -> list[StateVersion]:
        """The newest copies, newest first; each is read."""
        present = self._present()
        copies = self._copies()
        ended = self._ended(copies)
        return [self._described(name, present, ended.get(name, "")) for name in copies[:limit]]

    def restore(self, version: str) -> StateVersion:
        """Replace the state by a copy of it; the state as it is, damaged or not, becomes a copy itself.

        An empty ``version`` takes the newest sound copy that differs from the state.

        Raises:
            UsageError: There is no such copy.
            RefusedError: That copy is damaged, or there is no sound one.
        """
        present = self._present()
        copy, latest = self._sound(self._named(version)) if version else self._newest_other(present)
        put = copy.version("", latest, present)
        self.backend.copy_before(self.ref)
        self.backend.write(self.ref, latest)
        # "import" is the CLI's word for a state that came from elsewhere.
        entry = ended_now("import", started=int(time.time()), message=f"put back {put.version}")
        self.backend.record(self.ref, entry)
        return put

    def _copies(self) -> list[str]:
        return [name for name in self.backend.backups(self.ref).files(".json")[::-1] if _stamp(name)]

    def _present(self) -> bytes | None:
        return self.backend.storage.read(self.backend.state_file(self.ref))

    def _read(self, name: str) -> _Copy:
        return _Copy(name, self.backend.storage.read(name) or b"")

    def _named(self, version: str) -> _Copy:
        copies = {_stamp(name): name for name in self._copies()}
        if version not in copies:
            raise unknown_name("copy of the state", version, copies, of=self.ref.stack)
        return self._read(copies[version])

    def _newest_other(self, present: bytes | None) -> tuple[_Copy, dict[str, Any]]:
        for name in self._copies():
            copy = self._read(name)
            if copy.content == present:
                continue
            with suppress(RefusedError):
                return self._sound(copy)
        raise RefusedError(
            f"stack {self.ref.stack} has no sound copy of its state that differs from it",
            hint=f"look into {self.backend.storage.at(self.backend.backups(self.ref).name)}",
        )

    def _sound(self, copy: _Copy) -> tuple[_Copy, dict[str, Any]]:
        latest = self.backend.parsed(self.ref, copy.name, copy.content)
        if wrong := flaws(self.ref, latest):
            raise self.backend.damaged(self.ref, "; ".join(wrong), copy.name)
        return copy, latest

    def _described(self, name: str, present: bytes | None, note: str) -> StateVersion:
        copy = self._read(name)
        latest, what = None, ""
        with suppress(RefusedError):
            latest = self.backend.parsed(self.ref, name, copy.content)
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(self.backend.storage.read(note) or b"") if note else {}
            what = f"{entry['kind']} {entry['result']}"
        return copy.version(what, latest, present)

    def _ended(self, copies: list[str]) -> dict[str, str]:
        """By copy, the note of the operation that left it: the newest one since the copy before."""
        notes = {int(_stamp(file)): file for file in self.backend.history_folder(self.ref).files(".history.json")}
        notes_by_copy: dict[str, str] = {}
        for name in reversed(copies):
            since = [stamp for stamp in notes if stamp <= int(_stamp(name))]
            if since:
                notes_by_copy[name] = notes[max(since)]
            for stamp in since:
                del notes[stamp]
        return notes_by_copy


def _stamp(name: str) -> str:
    match = _STAMP.search(name)
    return match.group(1) if match else ""
