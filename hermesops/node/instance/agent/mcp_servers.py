"""What became of an agent's MCP servers, as its log tells it: hermes-agent's API says nothing about them.

Source: ``tools/mcp_tool.py`` of hermes-agent 0.19.0; the lines were seen on a machine, 2026-11-22.
"""

import re
from collections.abc import Iterable, Mapping

LOG = "logs/agent.log"
"""The agent's log, below its home."""

TAIL_BYTES = 512 * 1024
"""How much of its end is read."""

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
