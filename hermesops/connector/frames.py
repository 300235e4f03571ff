"""Frames between a gateway of hermes-agent and its connector. Pure; the only module that knows them.

Source: hermes-agent 0.19.0, ``gateway/relay/ws_transport.py``, ``adapter.py``, ``descriptor.py``; contract version 1.
Files are in it since a later release, whose ``gateway/relay/media.py`` reads and sends them beside the socket.
A frame is an object of JSON in one line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermesops.model.messaging.message import Incoming
from hermesops.users.messaging.files.references import AddressedFile
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import quoted

PLATFORM = "relay"
"""Under which name all messengers reach an agent: 0.19.0 finds no adapter to ask for approval under another."""

LARGEST = 1 << 20
"""Bytes of a frame."""

_LONGEST_ID = 128
_LONGEST_NUMBER = 18
_LONGEST_URL = 2048
_CONTRACT = 1
_LONGEST_MESSAGE = 4096


@dataclass(frozen=True)
class Hello:
    """The gateway greets, and names the platform that it is in front of."""

    platform: str


@dataclass(frozen=True)
class Taken:
    """The gateway has a message in its memory."""

    message_id: str


@dataclass(frozen=True)
class Message:
    """The agent writes to a chat."""

    request_id: str
    chat: str
    text: str = field(repr=False)
    reply_to: str = ""


@dataclass(frozen=True)
class FileMessage(Message):
    """The agent sends a file that it has uploaded; the text belongs to it.

    Attributes:
        source: Address that the agent made of the file's id.
    """

    source: str = field(default="", repr=False)


@dataclass(frozen=True)
class ChatQuestion:
    """The agent asks for a chat's name and kind."""

    request_id: str
    chat: str


@dataclass(frozen=True)
class Unsupported:
    """The agent asks for something that is not offered.

    Attributes:
        op: Its name, at most 32 characters.
    """

    request_id: str
    op: str


@dataclass(frozen=True)
class Idle:
    """The gateway stops: nothing is to be written to it any more."""


Frame = Hello | Taken | Message | ChatQuestion | Unsupported | Idle


def parse(line: str | bytes) -> Frame | None:
    """Parse a frame; ``None`` for one that means nothing here.

    Raises:
        MalformedJSONError: It is no object of JSON, or too large.
    """
    frame = strict_json.parse_object(line, largest=LARGEST)
    match frame.get("type"):
        case "hello":
            return Hello(_text(frame.get("platform"), _LONGEST_ID))
        case "inbound_ack":
            return Taken(_number(frame.get("bufferId")))
        case "outbound":
            return _outbound(_text(frame.get("requestId"), _LONGEST_ID), frame.get("action"))
        case "going_idle":
            return Idle()
    return None


def _outbound(request_id: str, action: object) -> Frame | None:
    if not request_id or not isinstance(action, dict):
        return None
    chat, op = _text(action.get("chat_id"), _LONGEST_ID), _text(action.get("op"), 32)
    if op == "send":
        content = action.get("content")
        text = content if isinstance(content, str) else ""
        return Message(request_id, chat, text, _number(action.get("reply_to")))
    if op == "send_media":
        content, source = action.get("content"), _text(action.get("source_url"), _LONGEST_URL)
        text = content if isinstance(content, str) else ""
        return FileMessage(request_id, chat, text, _number(action.get("reply_to")), source)
    if op == "get_chat_info":
        return ChatQuestion(request_id, chat)
    return Unsupported(request_id, op)


def _text(value: object, longest: int) -> str:
    return value if isinstance(value, str) and len(value) <= longest else ""


def _number(value: object) -> str:
    """A number of a message of ours, as agents got it; empty for anything else."""
    text = _text(value, _LONGEST_NUMBER)
    return text if text.isascii() and text.isdigit() else ""


def descriptor() -> str:
    """The answer to ``hello``: what chats can show. Longer texts are split here, for each messenger."""
    return _line(
        {
            "type": "descriptor",
            "descriptor": {
                "contract_version": _CONTRACT,
                "platform": PLATFORM,
                "label": "Messengers",
                "max_message_length": _LONGEST_MESSAGE,
                "supports_draft_streaming": False,
                "supports_edit": False,
                "supports_threads": False,
                "markdown_dialect": "markdown",
                "len_unit": "chars",
                "supported_ops": ["send", "send_media"],
            },
        }
    )


def inbound(incoming: Incoming, files: Sequence[AddressedFile] = ()) -> str:
    """A user's message. The chat's name is its user's as well: by it the transcript of the chat can be found.

    Newer gateways read ``media_urls`` themselves; 0.19.0 does not, so that its model gets the addresses in the text.
    """
    source = {
        "platform": PLATFORM,
        "chat_id": incoming.chat,
        "chat_type": "dm",
        "user_id": incoming.chat,
        "user_name": incoming.display,
        "message_id": str(incoming.id),
    }
    event: dict[str, Any] = {
        "text": incoming.text,
        "message_type": "text",
        "message_id": str(incoming.id),
        "source": source,
    }
    if files:
        event |= {
            "text": "\n\n".join([*(map(_note, files)), incoming.words]),
            "message_type": files[0].file.kind.value,
            "media_urls": [each.url for each in files],
            "media": [
                {
                    "url": each.url,
                    "mime": each.file.media_type,
                    "filename": each.file.name,
                    "kind": each.file.kind.value,
                }
                for each in files
            ],
        }
    return _line({"type": "inbound", "event": event, "bufferId": str(incoming.id)})


def _note(addressed: AddressedFile) -> str:
    file = addressed.file
    facts = ", ".join(filter(None, [file.media_type, f"{file.size} bytes" if file.size else ""]))
    return f"[The user sent the file {quoted(file.name)} ({facts or file.kind.value}). Download it: {addressed.url}]"


def result(request_id: str, message_id: str) -> str:
    """The answer to an agent's message that is a row now."""
    return _line({"type": "outbound_result", "requestId": request_id, "result": _success(message_id)})


def refusal(request_id: str, code: str) -> str:
    """The agent's request is refused, and will be again."""
    outcome = {"success": False, "error": code}
    return _line({"type": "outbound_result", "requestId": request_id, "result": outcome})


def chat_info(request_id: str, chat: str) -> str:
    """The answer to a question about a chat: its name and kind."""
    outcome = {"success": True, "chat_info": {"name": chat, "type": "dm"}}
    return _line({"type": "outbound_result", "requestId": request_id, "result": outcome})


def idle() -> str:
    """The answer to ``going_idle``: the gateway may close its socket."""
    return _line({"type": "going_idle_ack"})


def _success(message_id: str) -> Mapping[str, Any]:
    return {"success": True, "message_id": message_id}


def _line(frame: Mapping[str, Any]) -> str:
    return json.dumps(frame) + "\n"
