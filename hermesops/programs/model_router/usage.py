"""What instances used of models, until it is in the registry: counts and costs, never a word of what was said.

Each answer is a line in a file before it counts for a budget, so that a killed router loses nothing. Files are
delivered whole, each under an id of its own that the registry remembers: one that arrives twice counts once.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path
from uuid import uuid4

from hermesops.model.model_usage import Usage, summed

MOST_BYTES = 64 << 20
"""Bytes of undelivered lines after which further ones are lost, and counted as such: some 300,000 answers."""

_NAME = re.compile(r"usage-([0-9a-f]{32})\.jsonl")


class Spool:
    """Usage that the registry does not have yet, in a folder of this router's alone.

    Args:
        write: Adds a batch to the registry unless it has one of that id; may block and raise.
    """

    def __init__(
        self, folder: Path, write: Callable[[str, Sequence[Usage]], None], *, most_bytes: int = MOST_BYTES
    ) -> None:
        self._folder = folder
        self._write = write
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._new()
        self._bytes = sum(path.stat().st_size for path in self._files())
        self.lost = 0
        """Answers that were not kept."""

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not delivered."""
        return self._bytes

    def add(self, usage: Usage) -> None:
        """Keep one; one that cannot be kept is counted as lost."""
        line = json.dumps(asdict(usage) | {"day": usage.day.isoformat()}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._bytes + len(line) > self._most_bytes:
                self.lost += usage.requests
                return
            try:
                # Unbuffered: it is the kernel's before this returns, so a killed process loses nothing.
                with self._path.open("ab", buffering=0) as file:
                    file.write(line)
            except OSError:
                self.lost += usage.requests
                return
            self._bytes += len(line)

    def deliver(self) -> None:
        """Write all files to the registry, oldest first.

        Raises:
            Exception: What ``write`` raised; the file stays.
        """
        with self._lock:
            files = self._files()
            if self._path in files:
                self._new()
        for path in files:
            found = _NAME.fullmatch(path.name)
            rows = summed(_read(path))
            if rows and found:
                self._write(found[1], rows)
            size = path.stat().st_size
            path.unlink()
            with self._lock:
                self._bytes = max(0, self._bytes - size)

    def _new(self) -> None:
        self._path = self._folder / f"usage-{uuid4().hex}.jsonl"

    def _files(self) -> list[Path]:
        found: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if _NAME.fullmatch(path.name):
                    found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found)]


def _read(path: Path) -> Iterator[Usage]:
    """The lines of a file; what a computer that lost power left half written is passed over."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError, TypeError, KeyError):
            raw = json.loads(line)
            yield Usage(**(raw | {"day": date.fromisoformat(raw["day"])}))
