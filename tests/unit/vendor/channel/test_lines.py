"""Lines of a hostile machine's output have an end."""

from collections.abc import AsyncIterator

from hermesops.vendor.channel import Exit, Output
from hermesops.vendor.channel.lines import stdout_lines


async def lines(*pieces: bytes, longest: int = 8) -> list[str]:
    async def outputs() -> AsyncIterator[Output | Exit]:
        yield Output("stderr", b"not\nthis")
        for piece in pieces:
            yield Output("stdout", piece)
        yield Exit(0)

    return [line async for line in stdout_lines(outputs(), longest=longest)]


async def test_lines_are_whole_however_they_arrive() -> None:
    assert await lines(b"on", b"e\ntw", b"o\n\nthr", "ä".encode()[:1], "ä".encode()[1:]) == ["one", "two", "", "thrä"]


async def test_a_line_without_an_end_is_cut_and_not_kept() -> None:
    assert await lines(*[b"x" * 5] * 100, b"\nshort\n") == ["xxxxxxxx…", "short"]
    assert await lines(b"12345678\n123456789\n") == ["12345678", "12345678…"]
