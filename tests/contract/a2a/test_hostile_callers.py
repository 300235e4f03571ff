"""Callers that send anything: bodies of any kind and size, and what leaves the process nevertheless."""

import asyncio
import json
from itertools import count

import pytest

from hermesops.a2a.bodies import LARGEST
from hermesops.serving.limits import MOST_STREAMS
from tests.support.suite.cases import each_case
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, eventually, message, rpc


@pytest.fixture(autouse=True)
def unlimited(api: UsersApi) -> None:
    minutes = count()
    api.process.parts.limits._monotonic = lambda: next(minutes) * 60.0


DEEP = b"[" * 50_000 + b"]" * 50_000


def nested(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@each_case(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"1e999",
        b'"text"',
        DEEP,
        b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "GetTask"}',
        json.dumps([rpc("GetTask", {"id": "x"})] * 2).encode(),
        json.dumps(rpc("Unknown", {})).encode(),
        json.dumps(rpc("GetTask", {"id": {}})).encode(),
        json.dumps(rpc("SendMessage", {"message": message("x", metadata=nested(90))})).encode(),
        json.dumps(rpc("SendMessage", {"message": message("x", metadata=nested(900))})).encode(),
        json.dumps(rpc("message/send", {"message": {"role": "user", "parts": [], "messageId": "m"}})).encode(),
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
async def test_no_body_is_a_bug(caller: CallingAgent, body: bytes) -> None:
    for path in ("/", "/message:send", "/message:stream", "/v1/message:send", "/v0.3/"):
        answer = await caller.post(body, path)
        assert answer.status_code < 500, (path, answer.text)
        assert "Traceback" not in answer.text
        assert "hermesops/" not in answer.text


@each_case(
    "changes",
    [
        {"parts": [{"raw": "dGNr", "mediaType": "image/png"}]},
        {"parts": [{"url": "http://169.254.169.254/"}]},
        {"parts": [{"text": "a\0b"}]},
        {"parts": [{"text": " "}]},
        {"parts": [{"text": "x"}] * 51},
        {"parts": [{"text": "x" * 100_001}]},
        {"parts": []},
        {"role": "ROLE_AGENT"},
        {"messageId": ""},
        {"messageId": "../m"},
        {"messageId": "m" * 129},
        {"contextId": "c/../d"},
        {"contextId": "c" * 129},
        {"taskId": "t" * 65},
        {"taskId": "' OR 1=1 --"},
    ],
    ids=lambda changes: str(changes)[:40],
)
async def test_other_messages_are_refused_and_reach_no_agent(
    api: UsersApi, caller: CallingAgent, changes: dict[str, object]
) -> None:
    assert await caller.code("SendMessage", {"message": message("x") | changes}) in {-32602, -32005, -32001}
    answer = await caller.post({"message": message("x") | changes}, "/message:send")
    assert 400 <= answer.status_code < 500
    assert not api.agent.posts


async def test_half_of_a_character_is_refused(api: UsersApi, caller: CallingAgent) -> None:
    body = json.dumps(rpc("SendMessage", {"message": message("x")})).replace('"x"', '"\\ud800"')
    answer = await caller.post(body.encode())
    assert "error" in answer.json()
    assert not api.agent.posts


async def test_bodies_have_a_size_and_a_kind(caller: CallingAgent) -> None:
    large = await caller.post(b"x" * (LARGEST + 1))
    assert (large.status_code, large.json()["code"]) == (413, "too-large")
    headers = {**caller.headers, "content-type": "text/plain"}
    rpc_answer = await caller.http.post(f"{caller.path}/", content=b"{}", headers=headers)
    assert rpc_answer.json()["error"]["code"] == -32005
    rest_answer = await caller.http.post(f"{caller.path}/message:send", content=b"{}", headers=headers)
    assert rest_answer.status_code == 415


async def test_a_flood_of_messages_is_one_turn_at_a_time(api: UsersApi, ada: Client, caller: CallingAgent) -> None:
    api.agent.says = False
    configuration = {"returnImmediately": True}
    calls = [
        caller.call("SendMessage", {"message": message(str(number)), "configuration": configuration})
        for number in range(40)
    ]
    answers = await asyncio.gather(*calls)
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert set(codes) == {-32051}
    assert api.agent.posts <= 2
    assert (await ada.ask("GET", "/me")).status_code == 200


async def test_a_client_that_takes_no_event_holds_a_stream_and_no_more(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    task = await caller.result(
        "SendMessage", {"message": message("hello"), "configuration": {"returnImmediately": True}}
    )
    params = {"id": task["task"]["id"]}
    async with asyncio.TaskGroup() as group:
        opened = asyncio.Event()

        async def read() -> None:
            async with caller.stream("SubscribeToTask", params) as updates:
                await anext(updates)
                await opened.wait()

        readers = [group.create_task(read()) for _ in range(MOST_STREAMS)]
        await eventually(lambda: api.process.parts.limits._streams.get(caller.id) == MOST_STREAMS, "the streams")
        assert await caller.code("SubscribeToTask", params) == -32051
        opened.set()
        await asyncio.gather(*readers)


async def test_logs_hold_nothing_that_a_caller_sent(
    caller: CallingAgent, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    word = "canary0a2a0word"
    await caller.send(word)
    for body in (
        f'{{"{word}": 1}}',
        f'{{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {{"id": ["{word}"]}}}}',
    ):
        for path in ("/", "/message:send", "/v0.3/"):
            await caller.post(body.encode(), path)
    await caller.post(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"m": word}}).encode())
    out = capfd.readouterr()
    assert word not in out.out + out.err + caplog.text
    assert caller.key not in out.out + out.err + caplog.text
