"""What the scripted model answers. Pure: the conversation in, words or one tool call out.

``RUN: command`` asks for the agent's terminal, ``PYTHON: code`` for its code execution, ``SLEEP seconds`` stalls; a
tool's result is repeated, anything else is echoed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_RUN = re.compile(r"^RUN: (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^PYTHON: (.+)", re.MULTILINE | re.DOTALL)
_SLEEP = re.compile(r"^SLEEP (\d+(?:\.\d+)?)", re.MULTILINE)
_LONGEST_SLEEP_S = 600.0


@dataclass(frozen=True)
class Say:
    """Words."""

    text: str


@dataclass(frozen=True)
class Call:
    """One tool call.

    Attributes:
        arguments: A JSON object, as text.
    """

    tool: Literal["terminal", "execute_code"]
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What comes next, and after how many seconds."""

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
    if sleep := _SLEEP.search(text):
        return Answer(Say("SLEPT"), min(float(sleep[1]), _LONGEST_SLEEP_S))
    return Answer(Say(f"YOU SAID: {text}"))


def text_of(message: Mapping[str, object]) -> str:
    """The words of a message, whether it holds them plainly or in parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
