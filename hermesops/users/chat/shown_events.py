"""Events of an agent's run as pages get them: known kinds alone, bounded, and nothing that could act. Pure.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, ``_make_run_event_callback`` and ``_handle_runs``.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hermesops.wire.foreign_text import one_line, visible

CHOICES = ("once", "session", "always", "deny")
"""Answers to a request for approval, as hermes-agent takes them."""

_MOST_TEXT = 64_000
"""Characters of one event's text."""

_MOST_COMMAND = 8_000


def delta_in(event: Mapping[str, Any]) -> str | None:
    """The piece of the answer in an event; ``None`` for another event."""
    if event.get("event") != "message.delta":
        return None
    text = event.get("delta")
    return text[:_MOST_TEXT] if isinstance(text, str) else ""


def tool_in(event: Mapping[str, Any]) -> Mapping[str, object] | None:
    """What pages get of the begin or end of a tool's work; ``None`` for another event."""
    match event.get("event"):
        case "tool.started":
            return {"name": _line(event.get("tool")), "state": "running", "preview": _line(event.get("preview"))}
        case "tool.completed":
            state = "failed" if event.get("error") is True else "done"
            return {"name": _line(event.get("tool")), "state": state, "preview": ""}
    return None


def request_in(event: Mapping[str, Any]) -> Mapping[str, object] | None:
    """What pages get of a request for approval, but for its id; ``None`` for another event."""
    if event.get("event") != "approval.request":
        return None
    command = event.get("command")
    return {
        "command": _command(command) if isinstance(command, str) else "",
        "description": _line(event.get("description")),
        "choices": list(_choices(event.get("choices"))),
    }


def timestamp_in(event: Mapping[str, Any]) -> datetime | None:
    """The moment at which the agent made an event, by its machine's clock; ``None`` where it does not say."""
    return timestamp_of(event.get("timestamp"))


def timestamp_of(value: object) -> datetime | None:
    """A moment as agents give it, seconds since 1970 or text of ISO 8601; ``None`` for anything else."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _command(text: str) -> str:
    """A command with invisible characters shown, and what is left out named: what is approved must be what is read."""
    shown = visible(text[:_MOST_COMMAND])
    more = len(text) - _MOST_COMMAND
    return f"{shown}\n… {more} more characters are not shown" if more > 0 else shown


def _choices(value: object) -> Sequence[str]:
    offered = value if isinstance(value, list) else []
    return [choice for choice in CHOICES if choice in offered] or ["once", "deny"]


def _line(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""
