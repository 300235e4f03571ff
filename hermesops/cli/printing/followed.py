"""Lines that are shown as they come, until Ctrl-C."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from hermesops.cli import console


async def show_lines(lines: AsyncGenerator[str, None], kind: str, **fields: str) -> None:
    """Print lines as they come, for a program one JSON object a line.

    Args:
        kind: Name of the JSON shape.
        fields: Further fields of each object.
    """
    head = {"kind": kind, "version": console.SHAPE_VERSION, **fields}
    async with aclosing(lines):
        async for line in lines:
            console.write(f"{json.dumps({**head, 'line': line}) if console.is_json() else line}\n")


def until_interrupted(work: Callable[[], object]) -> None:
    """Do work that Ctrl-C ends: that is how it ends, and no failure."""
    with suppress(KeyboardInterrupt):
        work()
