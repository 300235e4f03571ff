"""Streams a user's own data from the machine as lines of JSON, and checks the row counts."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.vendor.channel import Channel, Completed, Exit, last_words, understood
from hermesops.wire import strict_json
from hermesops.wire.protocol import PROGRAM

_EXPORT_S = 3600.0

_LONGEST_LINE = 64 << 20
"""Bytes of one row: a file of the agent's with all its text."""


class Tally:
    """Counts rows by table, and holds the count of the last line against them."""

    def __init__(self, machine_id: str) -> None:
        self._machine_id = machine_id
        self.counts: Counter[str] = Counter()
        self._told: Mapping[str, int] | None = None
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Count the rows received; returns the whole lines.

        Raises:
            UnavailableError: A line is no row, or has no end.
        """
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise UnavailableError(f"the machine writes a row of more than {_LONGEST_LINE} bytes")
        with understood(self._machine_id, "export"):
            for line in whole.split(b"\n") if whole else ():
                self._count(strict_json.parse_object(line, largest=_LONGEST_LINE))
        return whole + newline

    def _count(self, row: Mapping[str, Any]) -> None:
        if row["table"] == "end":
            self._told = {str(table): int(count) for table, count in row["counts"].items()}
        else:
            self.counts[str(row["table"])] += 1

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
                hint="the same command again; do not use the partial file",
            )
        return dict(self._told)


async def export_data(channel: Channel, write: Callable[[bytes], object]) -> dict[str, int]:
    """Export all data of a user, line by line; returns the number of rows of each table.

    Args:
        write: Receives whole lines.

    Raises:
        UnavailableError: The export is incomplete.
        BrokenInvariantError: The received rows differ from those sent.
    """
    tally, errors = Tally(channel.machine_id), b""
    async for piece in channel.stream(f"{PROGRAM} export", timeout_s=_EXPORT_S):
        if isinstance(piece, Exit):
            if piece.exit_code != 0:
                why = last_words(Completed(piece.exit_code, b"", errors))
                raise UnavailableError(f"hermes-node cannot export: {why}", hint="the same command again")
        elif piece.stream == "stderr":
            errors = (errors + piece.data)[-4096:]
        elif lines := tally.take(piece.data):
            write(lines)
    return tally.end()


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in sorted(counts.items())) or "nothing"
