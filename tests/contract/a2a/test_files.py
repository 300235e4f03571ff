"""Files that calling agents send: images and texts, as users send them; nothing of a refused message is kept."""

from base64 import b64encode
from itertools import count
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from hermesops.a2a import bodies
from hermesops.a2a.messages import MOST_FILES
from hermesops.store.registry.schema.user_tables import chat_files
from hermesops.users.chat.files import LARGEST_IMAGE
from tests.support.suite.cases import each_case
from tests.support.users.api import UsersApi
from tests.support.users.calling import CallingAgent, eventually, message, rpc, texts

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
KIND_NOT_TAKEN, INVALID = -32005, -32602


def raw(content: bytes, media_type: str = "", filename: str = "") -> dict[str, str]:
    named = {"mediaType": media_type, "filename": filename}
    return {"raw": b64encode(content).decode(), **{name: value for name, value in named.items() if value}}


def kept(api: UsersApi) -> int:
    """Number of files in the rows."""
    with api.all_rows.reading() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(chat_files)) or 0


async def test_images_and_texts_reach_the_agent_and_are_dropped_with_the_end(
    api: UsersApi, caller: CallingAgent
) -> None:
    parts = [{"text": "look"}, raw(PNG, "image/png", "a.png"), raw("é".encode(), "text/csv; charset=utf-8", "../b.csv")]
    sent = message("x", contextId="c") | {"parts": parts}
    task = (await caller.result("SendMessage", {"message": sent}))["task"]
    text, image = api.agent.run.body["input"][0]["content"]
    assert text["text"].endswith("look\n\nFile b.csv:\n```\né\n```")
    assert image["image_url"]["url"] == f"data:image/png;base64,{b64encode(PNG).decode()}"
    assert texts(task).endswith("File b.csv:\n```\né\n```")
    await eventually(lambda: not kept(api), "the end of the files")
    again = await caller.result("SendMessage", {"message": sent})
    assert again["task"]["id"] == task["id"]
    assert not kept(api)


async def test_a_file_without_words_is_a_message(api: UsersApi, caller: CallingAgent) -> None:
    sent = await caller.post(
        {"message": message("x") | {"parts": [raw(b"# Notes", filename="notes.md")]}}, "/message:send"
    )
    assert sent.status_code == 200
    assert api.agent.run.text.endswith("File notes.md:\n```\n# Notes\n```")


async def test_a_caller_of_0_3_sends_files_too(api: UsersApi, caller: CallingAgent) -> None:
    caller.version = ""
    file = {"name": "a.png", "mimeType": "image/png", "bytes": b64encode(PNG).decode()}
    sent = {"kind": "message", "role": "user", "messageId": "m1", "parts": [{"kind": "file", "file": file}]}
    assert (await caller.result("message/send", {"message": sent}))["status"]["state"] == "completed"
    assert "image_url" in str(api.agent.run.body["input"])
    file = {"name": "a.png", "mimeType": "image/png", "uri": "https://example.com/a.png"}
    elsewhere = sent | {"messageId": "m2", "parts": [{"kind": "file", "file": file}]}
    assert await caller.code("message/send", {"message": elsewhere}) == KIND_NOT_TAKEN


@pytest.fixture
def unlimited(api: UsersApi) -> None:
    moment = count()
    api.process.parts.limits._monotonic = lambda: next(moment) * 60.0


@pytest.mark.usefixtures("unlimited")
@each_case(
    "case",
    [
        ([raw(b"tck", "application/x-unsupported")], KIND_NOT_TAKEN),
        ([raw(b"tck", "image/png")], KIND_NOT_TAKEN),
        ([raw(PNG, "text/plain")], KIND_NOT_TAKEN),
        ([raw(b"%PDF-1.7\0", "application/json")], KIND_NOT_TAKEN),
        ([raw(b"%PDF-1.7\0")], KIND_NOT_TAKEN),
        ([{"url": "https://example.com/a.png", "mediaType": "image/png"}], KIND_NOT_TAKEN),
        ([{"text": "x", "mediaType": "application/pdf"}], KIND_NOT_TAKEN),
        ([raw(b"", "text/plain")], INVALID),
        ([raw(b"x" * 64_001, "text/plain")], INVALID),
        ([raw(b"\xff\xd8\xff" + b"\0" * LARGEST_IMAGE)], INVALID),
        ([raw(b"x")] * (MOST_FILES + 1), INVALID),
        ([raw(PNG + b"\0" * (LARGEST_IMAGE // 2))] * 2, INVALID),
    ],
    ids=lambda case: str(case)[:60],
)
async def test_other_files_are_refused_and_leave_nothing(
    api: UsersApi, caller: CallingAgent, case: tuple[list[dict[str, Any]], int]
) -> None:
    parts, code = case
    assert await caller.code("SendMessage", {"message": message("x") | {"parts": [{"text": "look"}, *parts]}}) == code
    assert not api.agent.posts
    assert not kept(api)


async def test_a_busy_agent_keeps_no_files_and_an_answer_takes_none(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    begun = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    task = (await caller.result("SendMessage", begun))["task"]["id"]
    assert await caller.code("SendMessage", {"message": message("x") | {"parts": [raw(PNG)]}}) == -32051
    answer = message("x", taskId=task) | {"parts": [raw(PNG)]}
    assert await caller.code("SendMessage", {"message": answer}) == INVALID
    assert not kept(api)


async def test_bodies_with_too_many_values_are_refused_before_they_are_read(caller: CallingAgent) -> None:
    values = b"[" + b"1," * bodies._MOST_VALUES + b"1]"
    body = httpx.Request("POST", "http://x", json=rpc("SendMessage", {"message": message("x")})).content
    many = body.replace(b'"parts"', b'"extra":' + values + b',"parts"')
    for refused in (many, many.decode().encode("utf-16-le")):  # a parser takes either
        assert (await caller.post(refused)).json()["error"]["code"] == -32700
    texts = message("x") | {"parts": [{"text": "[{:," * 20_000}]}
    assert "result" in (await caller.post(rpc("SendMessage", {"message": texts}))).json()
