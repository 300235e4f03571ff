"""An agent's messages to its services, rebuilt from the fields that are known. Pure.

An agent's machine is its user's: a message may hold anything. No field of a message says whose accounts are used: those
are the session's. What could name others is dropped, and tools by which an agent would connect accounts or run programs
at Composio are refused.

Source: Model Context Protocol, revisions 2025-03-26 to 2025-11-25, "Messages", "Lifecycle", "Tools"; names of tools as
Composio's SDK 0.30.0 has them (``tool_router_constants.py``).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermesops.base.foreign_json import object_in
from hermesops.errors import RefusedError
from hermesops.wire.strict_json import MalformedJSONError

LARGEST = 1 << 20
"""Bytes of a message."""

_MOST_VALUES = 20_000
"""Values of a message: it is parsed on the event loop of the users' API."""

_META = "COMPOSIO_"
"""How the names of Composio's own tools begin; others are of a service."""

_ALLOWED_META = frozenset({"COMPOSIO_SEARCH_TOOLS", "COMPOSIO_GET_TOOL_SCHEMAS", "COMPOSIO_MULTI_EXECUTE_TOOL"})
_OTHERS = frozenset({"user_id", "entity_id", "connected_account_id", "connected_account_ids", "connected_accounts"})
"""Arguments of Composio's own tools that could name another user or account."""

_TOOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST = 256


class MalformedMessageError(RefusedError):
    """It is no message that an agent may send.

    Attributes:
        id: Of the message, where it has a usable one: then the protocol has an answer that says so.
    """

    def __init__(self, words: str, id_: str | int | None = None) -> None:
        super().__init__(words)
        self.id = id_


@dataclass(frozen=True)
class Message:
    """A message as it goes on.

    Attributes:
        is_first: Whether it begins a session of the protocol.
        id: ``None`` where no answer is expected.
    """

    content: bytes = field(repr=False)
    method: str
    is_first: bool = False
    id: str | int | None = None


def rebuilt(body: bytes) -> Message:
    """Parse a message, and build it anew.

    Raises:
        MalformedMessageError: See there; the words name a field, and no value.
    """
    try:
        raw = object_in(body, most=_MOST_VALUES, largest=LARGEST)
    except MalformedJSONError as error:
        raise MalformedMessageError(f"the message is malformed: {error}") from None
    if raw.get("jsonrpc") != "2.0":
        raise MalformedMessageError("the message is not JSON-RPC 2.0")
    if raw.get("method") is None:
        return _answer(raw)
    try:
        return _request(raw, raw.get("method"))
    except MalformedMessageError as error:
        raise MalformedMessageError(error.message, raw["id"] if _is_id(raw.get("id")) else None) from None


def failure(id_: str | int, words: str) -> bytes:
    """The protocol's answer to a message that was refused, or did not get through. Pure."""
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": -32000, "message": words}}).encode()


def _request(raw: Mapping[str, Any], method: object) -> Message:
    build = _METHODS.get(method) if isinstance(method, str) else None
    if build is None:
        raise MalformedMessageError("the message has a method that agents may not use")
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if not str(method).startswith("notifications/"):
        message["id"] = _id(raw.get("id"))
    params = build(_mapping(raw.get("params"), "params"))
    if params:
        message["params"] = params
    return Message(json.dumps(message).encode(), str(method), is_first=method == "initialize", id=message.get("id"))


def _answer(raw: Mapping[str, Any]) -> Message:
    """An answer to the server's ping, or the refusal of anything else: agents offer servers nothing."""
    refusal = {"code": -32601, "message": "not offered"}
    rest = {"result": {}} if raw.get("result") == {} else {"error": refusal}
    message = {"jsonrpc": "2.0", "id": _id(raw.get("id")), **rest}
    return Message(json.dumps(message).encode(), "answer")


def _initialize(params: Mapping[str, Any]) -> dict[str, Any]:
    version = params.get("protocolVersion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise MalformedMessageError("protocolVersion is none")
    about = {"name": "hermes-agent", "version": "1"}
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": about}


def _listing(params: Mapping[str, Any]) -> dict[str, Any]:
    cursor = params.get("cursor")
    return {"cursor": cursor} if isinstance(cursor, str) and len(cursor) <= _LONGEST else {}


def _call(params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), _mapping(params.get("arguments"), "arguments")
    if not isinstance(name, str) or not _TOOL.fullmatch(name):
        raise MalformedMessageError("the tool has no usable name")
    _refuse_tool(name)
    if name.upper().startswith(_META):
        arguments = _of_meta_tool(arguments)
    call: dict[str, Any] = {"name": name, "arguments": arguments}
    token = _mapping(params.get("_meta"), "_meta").get("progressToken")
    if isinstance(token, str | int) and len(str(token)) <= _LONGEST:
        call["_meta"] = {"progressToken": token}
    return call


def _of_meta_tool(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of one of Composio's own tools, which may hold calls of other tools."""
    kept = {name: value for name, value in arguments.items() if name not in _OTHERS}
    if isinstance(kept.get("tools"), list):
        kept["tools"] = [_inner(each) for each in kept["tools"]]
    return kept


def _inner(call: object) -> object:
    if not isinstance(call, dict):
        return call
    for name in ("tool_slug", "name", "tool"):
        if isinstance(call.get(name), str):
            _refuse_tool(call[name])
    return {name: value for name, value in call.items() if name not in _OTHERS}


def _refuse_tool(name: str) -> None:
    if name.strip().upper().startswith(_META) and name not in _ALLOWED_META:
        raise MalformedMessageError("agents may not use this tool")


def _cancelled(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"requestId": _id(params.get("requestId"))}


def _nothing(_params: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _id(value: object) -> str | int:
    if not _is_id(value):
        raise MalformedMessageError("the id is none")
    assert isinstance(value, str | int)  # noqa: S101 - as checked
    return value


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= _LONGEST


def _mapping(value: object, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedMessageError(f"{name} is no object")
    return value


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "initialize": _initialize,
    "ping": _nothing,
    "tools/list": _listing,
    "tools/call": _call,
    "resources/list": _listing,
    "resources/templates/list": _listing,
    "prompts/list": _listing,
    "notifications/initialized": _nothing,
    "notifications/cancelled": _cancelled,
}
