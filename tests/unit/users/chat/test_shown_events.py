"""What pages get of an agent's events: known kinds, bounded, and nothing that acts."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hermesops.users.chat.shown_events import delta_in, request_in, timestamp_in, tool_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("event", "delta", "tool", "preview", "error", "command", "description", "choices")
KINDS = ("message.delta", "tool.started", "tool.completed", "approval.request", "run.completed", "x")


@given(st.dictionaries(st.sampled_from(NAMES), JSON), st.sampled_from(KINDS))
def test_whatever_an_agent_sends_is_shown_as_text_or_not_at_all(event: dict[str, object], kind: str) -> None:
    event["event"] = kind
    assert isinstance(delta_in(event), str) is (kind == "message.delta")
    tool, request = tool_in(event), request_in(event)
    assert (tool is not None) is kind.startswith("tool.")
    assert (request is not None) is (kind == "approval.request")
    if tool:
        assert all(isinstance(value, str) and "\n" not in value for value in tool.values())
    if request:
        assert set(request) == {"command", "description", "choices"}


def test_a_command_is_shown_with_what_it_hides_and_what_is_left_out() -> None:
    shown = request_in(
        {"event": "approval.request", "command": "ls \u202e\x1b[2K" + "x" * 9_000, "choices": ["always"]}
    )
    assert shown is not None
    command = str(shown["command"])
    assert command.startswith("ls \\u202e\\x1b[2K")
    assert command.endswith("… 1008 more characters are not shown")
    assert shown["choices"] == ["always"]


def test_a_piece_of_any_size_is_bounded() -> None:
    assert len(delta_in({"event": "message.delta", "delta": "x" * 1_000_000}) or "") == 64_000


@given(JSON | st.floats() | st.datetimes().map(str))
def test_a_time_of_an_agent_has_a_zone_or_is_none(value: object) -> None:
    timestamp = timestamp_in({"timestamp": value})
    assert timestamp is None or timestamp.tzinfo is UTC


def test_an_agents_time_is_in_seconds() -> None:
    assert timestamp_in({"timestamp": 1_767_268_800.5}) == datetime(2026, 1, 1, 12, 0, 0, 500_000, UTC)
    assert timestamp_in({}) is None
