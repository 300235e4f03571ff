"""Usage of models by instances, until it is in the registry: counts and costs, never contents.

Each answer is a line in a file before it counts towards a budget, so a killed router loses nothing. Files are delivered
whole, each under an id of its own that the registry remembers: a file that arrives twice counts once.
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

from hermesops.model.billing.model_usage import Usage, summed

MOST_BYTES = 64 << 20
"""Bytes of undelivered lines after which further ones are lost, and counted as such: some 300,000 answers."""

_NAME = re.compile(r"usage-([0-9a-f]{32})\.jsonl")


class Spool:
    """Undelivered usage, in a folder of this router alone.

    Args:
        write: Adds a batch to the registry, unless the id is known there; may block and raise.
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
        """Size of all undelivered usage, in bytes."""
        return self._bytes

    def add(self, usage: Usage) -> None:
        """Store one usage record; a record that cannot be stored is counted as lost."""
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
            Exception: ``write`` failed; the file stays.
        """
        with self._lock:
            files = self._files()
            if self._path in files:
                self._new()
        for path in files:
            match = _NAME.fullmatch(path.name)
            rows = summed(_read(path))
            if rows and match:
                self._write(match[1], rows)
            size = path.stat().st_size
            path.unlink()
            with self._lock:
                self._bytes = max(0, self._bytes - size)

    def _new(self) -> None:
        self._path = self._folder / f"usage-{uuid4().hex}.jsonl"

    def _files(self) -> list[Path]:
        files: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if _NAME.fullmatch(path.name):
                    files.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(files)]


def _read(path: Path) -> Iterator[Usage]:
    """The lines of a file; a line that a power failure left incomplete is skipped."""
    for line in path.read_bytes().splitlines():
        with suppress(ValueError, TypeError, KeyError):
            raw = json.loads(line)
            yield Usage(**(raw | {"day": date.fromisoformat(raw["day"])}))
