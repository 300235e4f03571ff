"""What arrives of a user's data is counted, however it is cut on the way, and the end has to agree."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from hermesops.agents.instances.remote.data_export import export_data
from hermesops.errors import BrokenInvariantError, UnavailableError
from hermesops.vendor.channel import Exit, Output
from tests.support.suite.cases import each_case

ROWS: list[dict[str, object]] = [
    {"table": "sessions", "id": 1},
    {"table": "memory", "content": "a\nb \u2028 ü"},
    {"table": "memory"},
]
COUNTS = {"sessions": 1, "memory": 2, "cron": 0}


class Line:
    """A channel over which the machine says this, a few bytes at a time."""

    machine_id = "m"

    def __init__(
        self,
        rows: Sequence[Mapping[str, object]],
        counts: Mapping[str, int] | None,
        exit_code: int = 0,
        more: bytes = b"",
    ) -> None:
        end = [] if counts is None else [{"table": "end", "counts": counts}]
        self.text = "".join(json.dumps(row) + "\n" for row in [*rows, *end]).encode() + more
        self.exit_code = exit_code

    async def stream(self, command: str, *, timeout_s: float) -> AsyncIterator[Output | Exit]:
        assert (command.endswith("hermes-node export"), timeout_s > 600) == (True, True)
        for start in range(0, len(self.text), 7):
            yield Output("stdout", self.text[start : start + 7])
        if self.exit_code:
            yield Output("stderr", b"hermes-node: state.db cannot be read: locked\n")
        yield Exit(self.exit_code)


async def test_whole_lines_are_written_and_counted() -> None:
    came: list[bytes] = []
    line: Any = Line(ROWS, COUNTS)
    assert await export_data(line, came.append) == COUNTS
    assert b"".join(came) == line.text
    assert all(piece.endswith(b"\n") for piece in came)


@each_case(
    ("line", "error", "words"),
    [
        (Line(ROWS, None), UnavailableError, "the end"),
        (Line(ROWS, COUNTS, more=b'{"table": "mem'), UnavailableError, "the end"),
        (Line(ROWS[:2], COUNTS), BrokenInvariantError, "2 memory, 1 sessions, and 1 memory"),
        (Line(ROWS, None, exit_code=4), UnavailableError, "cannot export: state.db cannot be read: locked"),
        (Line(ROWS, COUNTS, more=b"no row\n"), UnavailableError, "machine m sent a malformed answer to export"),
        (Line([{"id": 1}], COUNTS), UnavailableError, "malformed answer to export .KeyError"),
        (
            Line([*ROWS, {"table": "end", "counts": [1]}], None),
            UnavailableError,
            "malformed answer to export .AttributeError",
        ),
    ],
    ids=["cut short", "half a row behind the end", "a row lost", "not readable", "no JSON", "no table", "no counts"],
)
async def test_less_than_all_is_an_error(line: Line, error: type[Exception], words: str) -> None:
    channel: Any = line
    with pytest.raises(error, match=words):
        await export_data(channel, lambda _: None)
