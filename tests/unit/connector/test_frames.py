"""Frames of gateways: those that are known, and nothing for all others."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermesops.connector import frames
from hermesops.wire.strict_json import MalformedJSONError
from tests.support.suite.cases import each_case

SEND = {"op": "send", "chat_id": "tg.1", "content": "hi", "reply_to": "7"}


@each_case(
    ("frame", "parsed"),
    [
        ({"type": "hello", "platform": "telegram", "botId": "x"}, frames.Hello("telegram")),
        ({"type": "inbound_ack", "bufferId": "12"}, frames.Taken("12")),
        ({"type": "outbound", "requestId": "r", "action": SEND}, frames.Message("r", "tg.1", "hi", "7")),
        (
            {"type": "outbound", "requestId": "r", "action": {"op": "get_chat_info", "chat_id": "tg.1"}},
            frames.ChatQuestion("r", "tg.1"),
        ),
        ({"type": "outbound", "requestId": "r", "action": {"op": "edit"}}, frames.Unsupported("r", "edit")),
        ({"type": "going_idle"}, frames.Idle()),
        ({"type": "inbound_ack", "bufferId": "²"}, frames.Taken("")),
        ({"type": "inbound_ack", "bufferId": "9" * 30}, frames.Taken("")),
        (
            {"type": "outbound", "requestId": "r", "action": {**SEND, "reply_to": "9" * 30}},
            frames.Message("r", "tg.1", "hi", ""),
        ),
        ({"type": "outbound", "requestId": "", "action": SEND}, None),
        ({"type": "outbound", "requestId": "r" * 200, "action": SEND}, None),
        ({"type": "outbound", "requestId": "r", "action": []}, None),
        ({"type": "interrupt", "session_key": "x"}, None),
        ({}, None),
    ],
)
def test_a_frame_is_read(frame: dict[str, Any], parsed: frames.Frame | None) -> None:
    assert frames.parse(json.dumps(frame)) == parsed


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_whatever_comes_is_a_frame_or_nothing_or_malformed(line: bytes | str) -> None:
    try:
        frames.parse(line)
    except MalformedJSONError:
        return


def test_our_frames_are_lines_of_json() -> None:
    for line in (frames.descriptor(), frames.result("r", "m"), frames.refusal("r", "x"), frames.chat_info("r", "c")):
        assert line.endswith("\n")
        assert line.count("\n") == 1
        assert json.loads(line)["type"] in {"descriptor", "outbound_result"}
