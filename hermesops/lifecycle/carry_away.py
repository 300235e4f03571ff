"""A user's own data as lines of JSON, brought here as hermes-node writes them, and counted on the way."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from hermesops.channel import Exit, Output
from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.node.protocol import PROGRAM

_EXPORT_S = 3600.0


class Streams(Protocol):
    """A channel, as far as output that comes bit by bit goes."""

    def stream(self, command: str, *, timeout_s: float) -> AsyncIterator[Output | Exit]:
        """Run a command and yield its output as it comes."""


class Tally:
    """Counts rows by table, and holds the count of the last line against them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._told: Mapping[str, int] | None = None
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Count what came; the whole lines of it."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        for line in whole.splitlines():
            row = json.loads(line)
            if row["table"] == "end":
                self._told = row["counts"]
            else:
                self.counts[row["table"]] += 1
        return whole + newline

    def end(self) -> dict[str, int]:
        """The counts, those that are nought included.

        Raises:
            UnavailableError: The end is missing.
            BrokenInvariantError: It says other counts: something was lost on the way.
        """
        if self._told is None or self._rest:
            raise UnavailableError("the end of the export did not arrive", hint="the same command again")
        if +Counter(self._told) != self.counts:
            raise BrokenInvariantError(
                f"the machine wrote {_words(self._told)}, and {_words(self.counts)} arrived",
                hint="the same command again; do not use what was written",
            )
        return dict(self._told)


async def carry_away(channel: Streams, write: Callable[[bytes], object]) -> dict[str, int]:
    """Have everything of a user's written down, line by line; how many rows of each table there were.

    Args:
        channel: To the user's machine; nothing changes there.
        write: Takes whole lines as they come.

    Raises:
        UnavailableError: It could not all be read; what was written is not the whole.
        BrokenInvariantError: Other rows arrived than were sent.
    """
    tally, said = Tally(), b""
    async for piece in channel.stream(f"{PROGRAM} export", timeout_s=_EXPORT_S):
        if isinstance(piece, Exit):
            if piece.exit_code != 0:
                words = said.decode(errors="replace").strip().splitlines()
                raise UnavailableError(
                    f"hermes-node cannot export: {words[-1].removeprefix('hermes-node: ') if words else 'no answer'}",
                    hint="the same command again",
                )
        elif piece.stream == "stderr":
            said = (said + piece.data)[-4096:]
        elif lines := tally.take(piece.data):
            write(lines)
    return tally.end()


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in sorted(counts.items())) or "nothing"
