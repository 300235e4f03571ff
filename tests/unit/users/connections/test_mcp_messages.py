"""An agent's messages are built anew: what is not known is dropped, what could name another user or account too."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.users.connections.mcp_messages import MalformedMessageError, rebuilt
from tests.support.suite.cases import each_case

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def built(**message: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    content: dict[str, Any] = json.loads(rebuilt(json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()).content)
    return content


def called(name: str, arguments: object, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    params = {"name": name, "arguments": arguments, **params}
    return dict(built(method="tools/call", params=params)["params"])


def test_a_call_of_a_services_tool_goes_on_with_its_own_arguments() -> None:
    arguments = {"user_id": "U1", "text": "hello", "deep": {"connected_account_id": "x"}}
    assert called("SLACK_SEND_MESSAGE", arguments) == {"name": "SLACK_SEND_MESSAGE", "arguments": arguments}


def test_no_field_beside_them_goes_on() -> None:
    message = built(
        method="tools/call", params={"name": "A", "arguments": {}, "user_id": "x"}, user_id="x", session="y"
    )
    assert message == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "A", "arguments": {}}}
    params = called("A", {}, _meta={"progressToken": 7, "user": "x"})
    assert params == {"name": "A", "arguments": {}, "_meta": {"progressToken": 7}}
    assert built(method="tools/list", params={"cursor": "c", "user_id": "x"})["params"] == {"cursor": "c"}


def test_composios_own_tools_name_no_user_and_no_account() -> None:
    others = dict.fromkeys(("user_id", "entity_id", "connected_account_id", "connected_account_ids"), "x")
    inner = {"tool_slug": "GMAIL_SEND", "arguments": {"user_id": "me"}, **others}
    arguments = called("COMPOSIO_MULTI_EXECUTE_TOOL", {"tools": [inner], **others})["arguments"]
    assert arguments == {"tools": [{"tool_slug": "GMAIL_SEND", "arguments": {"user_id": "me"}}]}


@each_case(
    "name",
    [
        "COMPOSIO_MANAGE_CONNECTIONS",
        "COMPOSIO_REMOTE_WORKBENCH",
        "COMPOSIO_REMOTE_BASH_TOOL",
        "COMPOSIO_PROXY_EXECUTE",
        "composio_manage_connections",
        "COMPOSIO_SOMETHING_NEW",
    ],
)
def test_tools_that_connect_accounts_or_run_programs_are_refused_also_inside_others(name: str) -> None:
    with pytest.raises(MalformedMessageError, match="may not use this tool"):
        called(name, {})
    for key in ("tool_slug", "name", "tool"):
        with pytest.raises(MalformedMessageError, match="may not use this tool"):
            called("COMPOSIO_MULTI_EXECUTE_TOOL", {"tools": [{key: name, "arguments": {}}]})


def test_an_agent_offers_the_server_nothing() -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": {"name": "x" * 999}}
    message = rebuilt(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
    assert message.is_first
    assert json.loads(message.content)["params"]["capabilities"] == {}
    assert "xxx" not in message.content.decode()
    assert built(result={}) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "error" in built(result={"action": "accept", "content": {"a": 1}})


@each_case(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": ["ping"]}',
        b'{"jsonrpc": "2.0", "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "../x"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "A", "arguments": "x"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "newest"}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
        b'{"jsonrpc": "2.0", "id": "' + b"x" * 300 + b'", "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "' + b"x" * (1 << 20) + b'"}',
    ],
    ids=lambda body: body[:70].decode(),
)
def test_what_is_no_message_is_refused_and_not_repeated(body: bytes) -> None:
    with pytest.raises(MalformedMessageError) as refused:
        rebuilt(body)
    assert "xxx" not in refused.value.message


@given(message=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "x"]), JSON, max_size=5))
def test_any_object_is_refused_or_built_of_known_fields(message: dict[str, Any]) -> None:
    try:
        content = json.loads(rebuilt(json.dumps({**message, "jsonrpc": "2.0"}).encode()).content)
    except MalformedMessageError:
        return
    assert content.keys() <= {"jsonrpc", "id", "method", "params", "result", "error"}
