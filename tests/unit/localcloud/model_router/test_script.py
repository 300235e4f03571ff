"""What the scripted model says."""

import json

import pytest

from hermesops.localcloud.model_router.script import Answer, Call, Say, answer_to

TOOLS = frozenset({"terminal", "execute_code"})


def user(content: object) -> list[dict[str, object]]:
    return [{"role": "system", "content": "RUN: never this"}, {"role": "user", "content": content}]


def test_run_asks_for_the_terminal_with_that_very_command() -> None:
    command = """echo "it's" $((6*7)) | tee 'a b'"""
    answer = answer_to(user(f"please\nRUN: {command}\nthanks"), TOOLS)
    assert isinstance(answer.content, Call)
    assert (answer.content.tool, json.loads(answer.content.arguments)) == ("terminal", {"command": command})


def test_python_asks_for_code_execution_with_every_line() -> None:
    answer = answer_to(user("PYTHON: import os\nprint(os.getpid())"), TOOLS)
    assert isinstance(answer.content, Call)
    assert answer.content.tool == "execute_code"
    assert json.loads(answer.content.arguments) == {"code": "import os\nprint(os.getpid())"}


def test_a_tools_result_is_repeated() -> None:
    messages: list[dict[str, object]] = [*user("RUN: id"), {"role": "tool", "content": '{"output": "RUN: id"}'}]
    assert answer_to(messages, TOOLS) == Answer(Say('TOOL SAID: {"output": "RUN: id"}'))


@pytest.mark.parametrize("text", ["RUN: id", "PYTHON: 1"])
def test_a_tool_that_is_not_offered_is_not_called(text: str) -> None:
    assert answer_to(user(text), frozenset()) == Answer(Say(f"YOU SAID: {text}"))


def test_sleep_stalls_for_so_long() -> None:
    assert answer_to(user("SLEEP 2.5"), TOOLS) == Answer(Say("SLEPT"), 2.5)
    assert answer_to(user("SLEEP 100000"), TOOLS) == Answer(Say("SLEPT"), 600)


@pytest.mark.parametrize(
    ("content", "said"),
    [("hello", "hello"), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"), (None, "")],
)
def test_anything_else_is_echoed(content: object, said: str) -> None:
    assert answer_to(user(content), TOOLS) == Answer(Say(f"YOU SAID: {said}"))


def test_an_empty_conversation_gets_an_answer() -> None:
    assert answer_to([], TOOLS) == Answer(Say("YOU SAID: "))
