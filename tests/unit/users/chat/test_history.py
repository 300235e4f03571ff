"""What an agent gets of a conversation with the next message, and what it stores of it."""

import time
from collections.abc import Mapping
from typing import Any

from hermesops.agents.relay.client import RelayClient
from hermesops.model.chat.transcript import Message, Transcript
from hermesops.store.user_rows.files import ChatFile
from hermesops.users.chat import agent_runs
from hermesops.users.chat.agent_runs import NO_ANSWER, AgentRuns, content_of, history_of


def spoken(*texts: tuple[str, str]) -> Transcript:
    return Transcript(
        [Message(number, role, text, is_final=role == "assistant") for number, (role, text) in enumerate(texts)]
    )


def test_a_question_without_an_answer_is_not_asked_again_with_the_next_one() -> None:
    stopped = spoken(("user", "delete all"), ("user", "thanks"), ("assistant", "welcome"), ("user", "and?"))
    assert [(message["role"], message["content"]) for message in history_of(stopped)] == [
        ("user", "delete all"),
        ("assistant", NO_ANSWER),
        ("user", "thanks"),
        ("assistant", "welcome"),
        ("user", "and?"),
        ("assistant", NO_ANSWER),
    ]


def test_a_new_conversation_has_no_history() -> None:
    assert history_of(Transcript()) == []


def test_a_long_conversation_goes_along_from_its_newest_message_back() -> None:
    long = spoken(
        *((role, f"{role} {number} " + "x" * 5_000) for number in range(150) for role in ("user", "assistant"))
    )
    history = history_of(long)
    assert sum(len(message["content"]) for message in history) <= 400_000
    assert history[-1]["content"].startswith("assistant 149 ")
    assert len(history) < 90


def test_what_tools_said_is_left_out() -> None:
    rows = [
        {"id": 1, "role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}]},
        {"id": 2, "role": "assistant", "content": "I run it", "tool_calls": [{}]},
        {"id": 3, "role": "tool", "content": "secret"},
        {"id": 4, "role": "assistant", "content": "done", "timestamp": 1_767_268_800.5},
        {"id": "5", "role": "user", "content": "malformed"},
        "nonsense",
    ]
    transcript = Transcript(tuple(agent_runs._messages(rows)))
    assert [message["content"] for message in history_of(transcript)] == ["look", "done"]
    at = transcript.messages[-1].at
    assert at is not None
    assert at.isoformat() == "2026-01-01T12:00:00.500000+00:00"


def test_notes_for_images_are_no_words_of_the_users() -> None:
    rows = [{"id": 1, "role": "user", "content": "look\n[screenshot]\n[screenshot]"}]
    assert [message.text for message in agent_runs._messages(rows)] == ["look"]


def test_the_agents_words_about_a_failure_are_one_line() -> None:
    run = agent_runs.run_of({"status": "failed", "error": "no\nmodel\x1b[2K" + "x" * 1_000})
    assert run.error.startswith("no model\\x1b[2K")
    assert len(run.error) < 320


def test_images_go_along_inline() -> None:
    [text, image] = content_of("look", [ChatFile("f", "p.png", "image/png", b"PNG")])
    assert text == {"type": "text", "text": "look"}
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}}


def test_an_agent_that_writes_a_hundred_thousand_notes_holds_nobody_up() -> None:
    began = time.process_time()
    rows = [
        {"id": 1, "role": "user", "content": "x" + "\n[screenshot]" * 70_000 + tail} for tail in ("", " x", " " * 9)
    ]
    texts = [message.text for message in agent_runs._messages(rows)]
    assert (texts[0], texts[2]) == ("x", "x")
    assert texts[1].endswith("[screenshot] x")
    assert time.process_time() - began < 60  # a search for the notes takes hours


async def test_of_a_transcript_of_tiny_rows_the_newest_are_read() -> None:
    class Relay(RelayClient):
        def __init__(self) -> None: ...

        async def get(self, agent: str, path: str) -> Mapping[str, Any]:
            assert (agent, path) == ("ada", "/api/sessions/s/messages")
            return {"data": [{"id": number, "role": "user", "content": "x"} for number in range(30_000)]}

    transcript = await AgentRuns(Relay()).transcript("ada", "s")
    assert (len(transcript.messages), transcript.mark) == (10_000, 29_999)
