"""Output of a streamed command as lines. A machine's output is hostile: no line is kept beyond a length."""

from collections.abc import AsyncGenerator, AsyncIterator

from hermesops.vendor.channel.interface import Exit, Output

LONGEST = 16 * 1024
"""Bytes of a line that are kept."""


async def stdout_lines(outputs: AsyncIterator[Output | Exit], *, longest: int = LONGEST) -> AsyncGenerator[str, None]:
    """Yield the lines of a command's stdout as they come; of a longer one the beginning, with an ellipsis.

    Args:
        longest: Bytes of a line that are kept.
    """
    rest = b""
    async for output in outputs:
        if not isinstance(output, Output) or output.stream != "stdout":
            continue
        *whole, rest = (rest + output.data).split(b"\n")
        for line in whole:
            yield _text(line, longest)
        rest = rest[: longest + 1]
    if rest:
        yield _text(rest, longest)


def _text(line: bytes, longest: int) -> str:
    text = line[:longest].decode(errors="replace")
    return f"{text}…" if len(line) > longest else text
