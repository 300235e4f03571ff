"""The chat over a WebSocket: the events and limits of the other routes, resumed behind any event, and bounded."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from starlette.types import Message
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hermesops.api.application import application
from hermesops.api.routes import chat_socket
from hermesops.base.waiting import Pending, until
from hermesops.model.chat.turn import Turn
from hermesops.users.chat import carrier, service
from hermesops.users.chat.events import ChatEvent
from tests.support.users.api import UsersApi
from tests.support.users.socket import PATH, opened, receive, send


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(service, "_LOOK_S", 0.2)


async def ask(socket: ClientConnection, key: str, message: str = "hello", conversation: str = "main") -> None:
    await send(socket, type="send", ref=key, message=message, conversation=conversation, client_key=key, files=[])


async def until_end(socket: ClientConnection) -> list[dict[str, Any]]:
    frames = [await receive(socket)]
    while frames[-1]["event"] not in {"done", "failed", "stopped", "problem"}:
        frames.append(await receive(socket))
    return frames


async def running(api: UsersApi) -> None:
    async def check() -> bool | Pending[bool]:
        return True if api.agent.runs else Pending("no run yet")

    await until(check, what="the run", timeout_s=20, every_s=0.01)


async def test_a_turn_begins_and_streams_with_the_events_of_the_other_routes(api: UsersApi) -> None:
    async with opened(api) as socket, api.client() as ada:
        await ask(socket, "k1")
        frames = await until_end(socket)
        turn = frames[0]["turn"]
        async with ada.resume(turn) as events:
            streamed = [event async for event in events]
    assert [(frame["event"], frame["id"], frame["data"]) for frame in frames] == [
        (event.kind, event.id, event.data) for event in streamed
    ]
    assert {frame["ref"] for frame in frames} == {"k1"}
    assert api.agent.posts == 1


async def test_a_socket_that_is_cut_behind_any_event_is_resumed_by_the_next_one(api: UsersApi) -> None:
    api.agent.says = False
    async with opened(api) as socket:
        await ask(socket, "k1")
        turn = (await receive(socket))["turn"]
        await running(api)
        frames = []
        for number in range(4):
            api.agent.push(api.agent.run, "message.delta", delta=f"{number} ")
            frames.append(await receive(socket))
    for cut in range(len(frames)):
        async with opened(api) as again:
            await send(again, type="follow", turn=turn, after=frames[cut]["id"])
            assert (await receive(again))["event"] == "turn"
            rest = [await receive(again) for _ in frames[cut + 1 :]]
        assert [frame["id"] for frame in rest] == [frame["id"] for frame in frames[cut + 1 :]]
    async with opened(api) as last:
        await send(last, type="follow", turn=turn, after=frames[-1]["id"])
        await send(last, type="stop", turn=turn)
        assert (await until_end(last))[-1]["event"] == "stopped"


async def test_a_request_for_approval_is_answered_once(api: UsersApi) -> None:
    api.agent.says = False
    async with opened(api) as socket:
        await ask(socket, "k1")
        turn = (await receive(socket))["turn"]
        await running(api)
        api.agent.push(api.agent.run, "approval.request", command="rm x", description="danger", choices=["once"])
        request = await receive(socket)
        for _ in range(2):
            await send(socket, type="approve", turn=turn, id=request["data"]["id"], choice="once")
        frames = sorted([await receive(socket) for _ in range(2)], key=lambda frame: str(frame["event"]))
    assert [(frame["event"], frame["data"].get("code")) for frame in frames] == [
        ("problem", "not-waiting"),
        ("resolved", None),
    ]
    assert api.agent.run.choices == ["once"]


async def test_a_turn_belongs_to_its_user(api: UsersApi) -> None:
    async with opened(api) as socket:
        await ask(socket, "k1", "a secret")
        turn = (await until_end(socket))[0]["turn"]
    async with opened(api, api.token(api.user("mallory"))) as other:
        for of in (turn, str(uuid4())):
            for frame in ({"type": "follow"}, {"type": "stop"}, {"type": "approve", "id": "1", "choice": "once"}):
                await send(other, turn=of, ref="r", **frame)
                answer = await receive(other)
                assert (answer["event"], answer["data"]["code"], answer["ref"]) == ("problem", "no-such-turn", "r")
                assert "secret" not in str(answer)


async def test_who_may_not_come_in_gets_no_socket(api: UsersApi, caplog: pytest.LogCaptureFixture) -> None:
    session = {"authorization": "", "cookie": "__Host-hermes=x"}
    cases: list[tuple[int, str, dict[str, str]]] = [
        (401, api.token(exp=1), {}),
        (401, "x", {}),
        (401, "", {"authorization": ""}),
        (403, "", session),
        (403, "", {**session, "origin": "https://other.test"}),
        (401, "", {**session, "origin": api.process.url}),  # ours, and a session that nobody has
        (403, "", {"host": "rebound.test"}),
    ]
    for status, token, headers in cases:
        with pytest.raises(InvalidStatus) as refused:
            async with opened(api, token, **headers):
                pass
        assert refused.value.response.status_code == status, headers
    assert not caplog.records


async def test_a_token_that_ends_closes_the_socket(api: UsersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_socket, "CHECK_S", 0.1)
    async with opened(api) as socket:
        await ask(socket, "k1")
        await until_end(socket)
        api.denied.add(api.ada.user_id)
        with pytest.raises(ConnectionClosed) as closed:
            await receive(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == chat_socket.UNAUTHORIZED


async def test_malformed_frames_are_refused_and_the_socket_stays(api: UsersApi) -> None:
    frames = (
        "",
        "[]",
        "{",
        '{"type": "send"}',
        '{"type": "other", "turn": "x"}',
        '{"type": "stop", "turn": "../x"}',
        json.dumps({"type": "send", "message": " ", "conversation": "c", "client_key": "k"}),
        json.dumps({"type": "send", "message": "x", "conversation": "c", "client_key": "k", "user": "grace"}),
        '{"type": "send", "message": "\\ud800", "conversation": "c", "client_key": "k"}',
        "[" * 100_000,
    )
    async with opened(api) as socket:
        for frame in frames:
            await socket.send(frame)
            assert (await receive(socket))["data"]["code"] == "malformed", frame[:80]
        await ask(socket, "k1")
        assert (await until_end(socket))[-1]["event"] == "done"
    assert api.agent.posts == 1


async def test_frames_that_are_large_or_no_text_close_it(api: UsersApi) -> None:
    for frame, code in (("x" * (chat_socket.LARGEST_FRAME + 1), 1009), (b"\0", 1003)):
        async with opened(api) as socket:
            await socket.send(frame)
            with pytest.raises(ConnectionClosed) as closed:
                await receive(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code


async def test_frames_and_sockets_are_limited_for_each_user(api: UsersApi) -> None:
    api.process.parts.limits._monotonic = lambda: 0.0
    async with opened(api) as socket:
        for _ in range(31):
            await send(socket, type="stop", turn=str(uuid4()))
        answers = [(await receive(socket))["data"]["code"] for _ in range(31)]
        assert answers == [*["no-such-turn"] * 30, "too-many-requests"]
        async with _many(api, 7):
            with pytest.raises(InvalidStatus) as refused:
                async with opened(api):
                    pass
            assert refused.value.response.status_code == 429
            async with opened(api, api.token(api.user("grace"))):
                pass


@asynccontextmanager
async def _many(api: UsersApi, count: int) -> AsyncIterator[None]:
    if not count:
        yield
        return
    async with opened(api), _many(api, count - 1):
        yield


def _scope(api: UsersApi) -> dict[str, Any]:
    """A socket of ada's, as an application without a server gets it."""
    host = api.process.url.partition("://")[2]
    headers = [(b"host", host.encode()), (b"authorization", f"Bearer {api.token()}".encode())]
    return {"type": "websocket", "path": PATH, "headers": headers, "query_string": b"", "subprotocols": []}


def _received(**frame: object) -> Message:
    return {"type": "websocket.receive", "text": json.dumps(frame)}


def _coming(messages: list[Message]) -> Callable[[], Awaitable[Message]]:
    """Messages of a client that then says nothing more."""
    coming = iter(messages)

    async def receive_next() -> Message:
        for message in coming:
            return message
        return await asyncio.Event().wait()  # type: ignore[return-value]  # it never ends

    return receive_next


async def test_a_client_that_takes_no_frame_is_given_up(api: UsersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_socket, "_SLOW_S", 0.05)
    frames = [{"type": "websocket.connect"}, _received(type="stop", turn=str(uuid4()))]

    async def take(message: Message) -> None:
        if message["type"] != "websocket.accept":
            await asyncio.Event().wait()

    async with asyncio.timeout(10):
        await application(api.process.parts)(_scope(api), _coming(frames), take)
    assert not api.process.parts.limits._streams


async def test_a_client_that_takes_no_event_is_given_up(api: UsersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_socket, "_SLOW_S", 0.05)
    async with api.client() as ada:
        turn = (await ada.whole("hello"))[0].data["id"]
    frames = [{"type": "websocket.connect"}, _received(type="follow", turn=turn)]
    closed: list[int] = []

    async def take(message: Message) -> None:
        if message["type"] == "websocket.close":
            closed.append(message["code"])
        elif message["type"] != "websocket.accept":
            await asyncio.Event().wait()

    async with asyncio.timeout(10):
        await application(api.process.parts)(_scope(api), _coming(frames), take)
    assert closed == [chat_socket.TOO_SLOW]


async def test_an_unforeseen_error_is_logged_by_its_turn_and_closes_the_socket(
    api: UsersApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(turn: Turn, after: int) -> AsyncIterator[ChatEvent]:
        del turn, after
        yield ChatEvent(1, "delta", {"text": "hel"})
        raise ZeroDivisionError

    async with opened(api) as socket, api.client() as ada:
        turn = (await ada.whole("hello"))[0].data["id"]
        monkeypatch.setattr(api.process.chat, "events", broken)
        with capture_logs() as entries:
            await send(socket, type="follow", ref="r", turn=turn)
            assert [(await receive(socket))["event"] for _ in range(2)] == ["turn", "delta"]
            assert await _closed(socket) == chat_socket.FAILED
    assert not api.process.parts.limits._streams
    [entry] = [entry for entry in entries if entry["event"] == "socket_failed"]
    assert (entry["turn"], entry["log_level"], entry["exc_info"]) == (turn, "error", True)


async def test_an_unforeseen_error_of_a_frame_closes_the_socket(api: UsersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> Turn:
        raise ZeroDivisionError

    monkeypatch.setattr(api.process.chat, "stop", broken)
    with capture_logs() as entries:
        async with opened(api) as socket:
            await send(socket, type="stop", turn=str(uuid4()))
            assert await _closed(socket) == chat_socket.FAILED
    assert "socket_failed" in {entry["event"] for entry in entries}


async def _closed(socket: ClientConnection) -> int:
    """The code that the socket is closed with, next."""
    with pytest.raises(ConnectionClosed) as closed:
        await receive(socket)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code
