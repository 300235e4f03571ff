"""The scripted model: its answers, in the shape of OpenAI's chat completions, whole or as a stream. Pure.

``RUN: command`` asks for the agent's terminal, ``PYTHON: code`` for its code execution, ``CALL: tool {json}`` for any
tool, as one of a connected service; ``SLEEP seconds`` stalls. A tool's result is repeated, anything else is echoed.

Source: OpenAI API reference, chat completions, as hermes-agent 0.19.0 reads it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_RUN = re.compile(r"^RUN: (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^PYTHON: (.+)", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"^CALL: (\S+)(?: (\{.*\}))?$", re.MULTILINE)
_SLEEP = re.compile(r"^SLEEP (\d+(?:\.\d+)?)", re.MULTILINE)
_LONGEST_SLEEP_S = 600.0


_PIECE = 24


@dataclass(frozen=True)
class Say:
    """An answer that is plain text."""

    text: str


@dataclass(frozen=True)
class Call:
    """One tool call; ``arguments`` is a JSON object, as text."""

    tool: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """The next message, and the seconds before it."""

    content: Say | Call
    after_s: float = 0.0


def answer_to(messages: Sequence[Mapping[str, object]], tools: frozenset[str]) -> Answer:
    """Decide the next message of a conversation.

    Args:
        messages: In OpenAI's shape, oldest first.
        tools: Names of the tools the caller offers; a script for another one is echoed.
    """
    last = messages[-1] if messages else {}
    text = text_of(last)
    if last.get("role") == "tool":
        return Answer(Say(f"TOOL SAID: {text}"))
    if (run := _RUN.search(text)) and "terminal" in tools:
        return Answer(Call("terminal", json.dumps({"command": run[1].strip()})))
    if (python := _PYTHON.search(text)) and "execute_code" in tools:
        return Answer(Call("execute_code", json.dumps({"code": python[1]})))
    if (call := _CALL.search(text)) and call[1] in tools:
        return Answer(Call(call[1], call[2] or "{}"))
    if sleep := _SLEEP.search(text):
        return Answer(Say("SLEPT"), min(float(sleep[1]), _LONGEST_SLEEP_S))
    return Answer(Say(f"YOU SAID: {text}"))


def text_of(message: Mapping[str, object]) -> str:
    """The text of a message, in either form: plain or in parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def tools_of(completion: Mapping[str, object]) -> frozenset[str]:
    """Names of the tools that a request offers."""
    tools = completion.get("tools")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return frozenset(str(function.get("name")) for function in functions if isinstance(function, dict))


def messages_of(completion: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The messages of a request, oldest first."""
    messages = completion["messages"]
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def whole(request_id: str, created: int, model: str, content: Say | Call, prompt_length: int) -> dict[str, object]:
    """The answer to a request that did not ask for a stream."""
    message: dict[str, object] = {"role": "assistant", "content": None}
    if isinstance(content, Say):
        message["content"] = content.text
    else:
        message["tool_calls"] = [_tool_call(request_id, content)]
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(content)}],
        "usage": usage(content, prompt_length),
    }


def stream(request_id: str, created: int, model: str, content: Say | Call, prompt_length: int) -> Iterator[str]:
    """The answer as server-sent events: the role, the content in pieces, the reason, the usage, the end."""

    def event(choices: list[dict[str, object]], used: dict[str, int] | None = None) -> str:
        chunk: dict[str, object] = {
            "id": request_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": choices,
        }
        if used:
            chunk["usage"] = used
        return f"data: {json.dumps(chunk)}\n\n"

    def delta(fields: dict[str, object], reason: str | None = None) -> str:
        return event([{"index": 0, "delta": fields, "finish_reason": reason}])

    yield delta({"role": "assistant", "content": ""})
    if isinstance(content, Say):
        for start in range(0, len(content.text), _PIECE):
            yield delta({"content": content.text[start : start + _PIECE]})
    else:
        yield delta({"tool_calls": [{"index": 0, **_tool_call(request_id, content)}]})
    yield delta({}, _reason(content))
    yield event([], usage(content, prompt_length))
    yield "data: [DONE]\n\n"


def _tool_call(request_id: str, call: Call) -> dict[str, object]:
    return {
        "id": f"call_{request_id[-12:]}",
        "type": "function",
        "function": {"name": call.tool, "arguments": call.arguments},
    }


def _reason(content: Say | Call) -> str:
    return "stop" if isinstance(content, Say) else "tool_calls"


def usage(content: Say | Call, prompt_length: int) -> dict[str, int]:
    """The token usage of an answer, in OpenAI's shape."""
    # Four characters are about a token: enough for callers that add them up.
    characters = len(content.text if isinstance(content, Say) else content.arguments)
    prompt, completion = prompt_length // 4, max(1, characters // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
