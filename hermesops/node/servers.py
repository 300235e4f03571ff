"""What became of an agent's MCP servers, as its log tells it: hermes-agent's API says nothing about them.

Source: ``tools/mcp_tool.py`` of hermes-agent 0.19.0; the lines were seen on a machine, 2026-11-22.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress

_TAIL_BYTES = 512 * 1024
_CONNECTED = re.compile(r"MCP server '([^']+)' \([^)]*\): registered (\d+) tool")
_LOST = re.compile(r"Failed to connect to MCP server '([^']+)'|MCP server '([^']+)' failed initial connection")


def states(log: str, names: Iterable[str]) -> Mapping[str, bool | None]:
    """The last thing a log says of each server: connected, not connected, or nothing."""
    found: dict[str, bool | None] = dict.fromkeys(names)
    for line in log.splitlines():
        name, connected = "", False
        if match := _CONNECTED.search(line):
            name, connected = match[1], True
        elif match := _LOST.search(line):
            name = match[1] or match[2]
        if name in found:
            found[name] = connected
    return found


def tail(home: int) -> str:
    """The end of the agent's log; empty when there is none, or something that is no plain file is in its place.

    Args:
        home: Descriptor of the agent's home; no link below it is followed.
    """
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        folder = os.open("logs", flags | os.O_DIRECTORY, dir_fd=home)
        try:
            descriptor = os.open("agent.log", flags, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode):
                file.seek(max(0, found.st_size - _TAIL_BYTES))
                return file.read(_TAIL_BYTES).decode(errors="replace")
    return ""
