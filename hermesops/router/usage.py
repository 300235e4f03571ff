"""What instances used of models, until it is in the registry: counts and costs, never a word of what was said.

Each answer is a line in a file before it counts for a budget, so that a killed router loses nothing. Files are
delivered whole, each under an id of its own that the registry remembers: one that arrives twice counts once.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from uuid import uuid4

from hermesops.model.ids import InstanceId

MOST_BYTES = 64 << 20
"""Bytes of undelivered lines after which further ones are lost, and counted as such: some 300,000 answers."""

_NAME = re.compile(r"usage-([0-9a-f]{32})\.jsonl")


@dataclass(frozen=True)
class Usage:
    """Answers of one kind on one day.

    Attributes:
        model: The route that was asked for; empty where it was none.
        provider: Who answered; empty for the router itself.
        outcome: The HTTP status, as text; ``cut`` for a stream that its reader left.
        micros: Millionths of a US dollar.
    """

    instance_id: InstanceId
    day: date
    model: str
    provider: str
    outcome: str
    requests: int
    input_tokens: int = 0
    output_tokens: int = 0
    micros: int = 0

    @property
    def key(self) -> tuple[str, date, str, str, str]:
        """What tells it from others."""
        return self.instance_id, self.day, self.model, self.provider, self.outcome


def summed(usages: Iterable[Usage]) -> list[Usage]:
    """One for each key, in the order of keys: two routers that write at once cannot block each other."""
    sums: dict[tuple[str, date, str, str, str], Usage] = {}
    for one in usages:
        held = sums.get(one.key)
        sums[one.key] = (
            one
            if held is None
            else replace(
                held,
                requests=held.requests + one.requests,
                input_tokens=held.input_tokens + one.input_tokens,
                output_tokens=held.output_tokens + one.output_tokens,
                micros=held.micros + one.micros,
            )
        )
    return [sums[key] for key in sorted(sums)]


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
