"""A turn through the API, a relay over TLS and an agent: streamed, cut, resumed, and never sent twice."""

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from hermesops.api import turn_stream
from hermesops.base.waiting import Pending, until
from hermesops.model.chat.turn import Turn
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.store.registry.schema.user_tables import metadata
from hermesops.users.chat import carrier, service
from hermesops.users.chat.decide import LONGEST, SETTLING
from hermesops.users.chat.events import STEP
from tests.support.users.api import Client, Event, UsersApi

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(carrier, "_LOOK_S", 0.2)
    monkeypatch.setattr(service, "_SWEEP_S", 0.1)
    monkeypatch.setattr(service, "_LOOK_S", 0.2)


async def eventually(holds: Callable[[], object], what: str) -> None:
    async def check() -> bool | Pending[bool]:
        return True if holds() else Pending("not yet")

    await until(check, what=what, timeout_s=20, every_s=0.01)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def said(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.kind == "delta")


async def test_an_answer_streams_and_the_next_question_brings_the_conversation(api: UsersApi, ada: Client) -> None:
    events = await ada.whole("hello", key="k1")
    assert (events[0].kind, events[0].id) == ("turn", "")
    assert (events[0].data["conversation"], events[0].data["client_key"]) == ("main", "k1")
    assert said(events) == "You said it: hello"
    assert (events[-1].kind, events[-1].data) == ("done", {"text": "You said it: hello"})
    assert [event.id for event in events[1:]] == [f"{events[0].data['id']}:{n + 1}" for n in range(len(events) - 1)]
    await ada.whole("and more")
    await ada.whole("elsewhere", conversation="other")
    bodies = [run.body for run in api.agent.runs.values()]
    assert [body["conversation_history"] for body in bodies] == [
        [],
        [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "You said it: hello"}],
        [],
    ]
    assert {body["session_id"] for body in bodies} == {"web_main", "web_other"}
    key = api.relay.registry.instance_secrets.api_server_key(api.ada.id)
    assert api.agent.bearers == {f"Bearer {key}"}


async def test_a_reader_that_is_cut_behind_any_event_resumes_without_a_gap_or_a_repeat(
    api: UsersApi, ada: Client
) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        run, followed = api.agent.run, list[Event]()
        for number in range(5):
            api.agent.push(run, "message.delta", delta=f"{number} ")
            followed.append(await anext(events))
            api.agent.push(run, "tool.started", tool="terminal", preview="ls")
            followed.append(await anext(events))
    for cut in range(len(followed)):
        async with ada.resume(turn, followed[cut].id) as again:
            assert (await anext(again)).kind == "turn"
            rest = [await anext(again) for _ in followed[cut + 1 :]]
        assert followed[: cut + 1] + rest == followed
    api.agent.end(run, "0 1 2 3 4 ")
    async with ada.resume(turn, followed[-1].id) as again:
        assert kinds([event async for event in again]) == ["turn", "done"]
    async with ada.resume(turn) as again:
        assert kinds([event async for event in again]) == ["turn", *kinds(followed), "done"]


async def test_a_turn_and_a_cursor_belong_to_their_user(api: UsersApi, ada: Client) -> None:
    events = await ada.whole("a secret")
    turn = events[0].data["id"]
    async with api.client(api.user("mallory")) as mallory:
        for method, path in (
            ("GET", f"/chat/turns/{turn}/events"),
            ("POST", f"/chat/turns/{turn}/stop"),
            ("POST", f"/chat/turns/{turn}/approval"),
        ):
            answer = await mallory.ask(method, path, json={"id": "1", "choice": "once"} if "approval" in path else None)
            assert (answer.status_code, answer.json()["code"]) == (404, "no-such-turn")
            unknown = await mallory.ask(method, path.replace(turn, str(uuid4())), json={"id": "1", "choice": "once"})
            assert {**unknown.json(), "request_id": ""} == {**answer.json(), "request_id": ""}
    other = await ada.whole("another", conversation="other")
    async with ada.resume(other[0].data["id"], events[-1].id) as again:  # a cursor of another turn is none
        assert [event async for event in again] == other


async def test_a_key_begins_one_turn(api: UsersApi, ada: Client) -> None:
    first, second = await asyncio.gather(ada.whole("hello", key="k"), ada.whole("hello", key="k"))
    third = await ada.whole("something else", key="k", conversation="other")
    assert {events[0].data["id"] for events in (first, second, third)} == {first[0].data["id"]}
    assert api.agent.posts == 1


async def test_a_conversation_has_one_turn_at_a_time_and_a_user_two(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    bodies = [
        {"message": "hello", "conversation": name, "client_key": f"k{number}"}
        for number, name in enumerate(("one", "one", "two", "three"))
    ]
    async with ada.send("hello", conversation="one", key="k0") as first:
        await anext(first)
        busy = await ada.ask("POST", "/chat", json=bodies[1])
        assert (busy.status_code, busy.json()["code"]) == (409, "conversation-busy")
        async with ada.send("hello", conversation="two", key="k2") as second:
            await anext(second)
            many = await ada.ask("POST", "/chat", json=bodies[3])
            assert (many.status_code, many.json()["code"]) == (409, "conversation-busy")


@pytest.mark.parametrize("loses", [1, 3])
async def test_a_message_whose_answer_was_lost_is_not_sent_again(api: UsersApi, ada: Client, loses: int) -> None:
    api.agent.loses = loses
    events = await ada.whole("hello")
    assert events[-1].data == {"text": "You said it: hello"}
    assert api.agent.posts == 1


async def test_a_message_that_never_began_is_sent_again_once_that_is_certain(api: UsersApi, ada: Client) -> None:
    api.agent.drops = 1
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.posts, "the first attempt")
        assert api.agent.posts == 1
        api.relay.clock.turn(SETTLING.total_seconds() + 1)
        rest = [event async for event in events]
    assert (rest[-1].kind, api.agent.posts) == ("done", 2)


async def test_an_agent_that_dies_in_a_turn_ends_it_once_with_a_reason(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="I think")
        assert (await anext(events)).data == {"text": "I think"}
        api.agent.restart()
        rest = [event async for event in events]
    assert kinds(rest) == ["failed"]
    assert "interrupted" in rest[0].data["detail"]
    assert api.agent.posts == 1
    shown = (await ada.ask("GET", "/chat/conversations/main")).json()
    assert shown["open_turn"] is None
    assert (shown["unanswered"]["state"], "interrupted" in shown["unanswered"]["detail"]) == ("failed", True)
    api.agent.says = True
    api.relay.clock.turn(1)
    assert (await ada.whole("hello again"))[-1].kind == "done"
    assert (await ada.ask("GET", "/chat/conversations/main")).json()["unanswered"] is None


async def test_an_answer_that_came_before_the_agent_died_is_recalled(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.say("web_main", "assistant", "the whole answer")
        api.agent.restart()
        assert [event.data async for event in events] == [{"text": "the whole answer"}]


async def test_of_a_long_conversation_the_newest_messages_are_shown(api: UsersApi, ada: Client) -> None:
    for number in range(2_500):
        api.agent.say("web_main", "user", str(number))
    shown = (await ada.ask("GET", "/chat/conversations/main")).json()["messages"]
    assert (len(shown), shown[0]["text"], shown[-1]["text"]) == (2_000, "500", "2499")
    for letter in "abc":
        api.agent.say("web_main", "user", letter * 900_000)
    shown = (await ada.ask("GET", "/chat/conversations/main")).json()["messages"]
    assert [message["text"][0] for message in shown] == ["b", "c"]


async def test_a_transcript_of_too_many_values_is_an_agent_that_does_not_answer(api: UsersApi, ada: Client) -> None:
    api.agent.sessions["web_main"] = [{"id": 1, "role": "user", "content": "x", "more": [[]] * 250_000}]
    assert (await ada.ask("GET", "/chat/conversations/main")).status_code == 503
    api.agent.sessions["web_main"] = [{"id": 1, "role": "user", "content": "[{:," * 100_000}]
    assert len((await ada.ask("GET", "/chat/conversations/main")).json()["messages"][0]["text"]) == 400_000


async def test_an_event_of_too_many_values_breaks_the_stream_off_and_the_turn_goes_on(
    api: UsersApi, ada: Client
) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="lost", more=[0] * 20_000)
        api.agent.end(api.agent.run, "the whole answer")
        assert [event.data async for event in events] == [{"text": "the whole answer"}]


async def test_a_draining_agent_gets_the_message_later(api: UsersApi, ada: Client) -> None:
    api.agent.is_away = True
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.posts > 2, "some attempts")
        api.agent.is_away = False
        assert [event async for event in events][-1].data == {"text": "You said it: hello"}
    assert len(api.agent.runs) == 1


async def test_a_process_that_dies_is_followed_by_another_which_ends_the_turn(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="first ")
        cursor = (await anext(events)).id
    await api.process.die()
    async with api.started() as second, api.client(process=second) as again, again.resume(turn, cursor) as events:
        assert (await anext(events)).kind == "turn"
        api.relay.clock.turn(carrier.LEASE.total_seconds() + 1)
        await eventually(lambda: second.chat._carrying, "the second carrier")
        api.agent.run.is_read = False  # the dead process's connection has ended
        api.agent.push(api.agent.run, "message.delta", delta="third")
        await eventually(lambda: api.agent.run.is_read, "the second reader")
        api.agent.end(api.agent.run, "first second third")
        rest = [event async for event in events]
    assert [(event.kind, event.data) for event in rest] == [("done", {"text": "first second third"})]
    assert int(rest[0].id.partition(":")[2]) > STEP
    assert api.agent.posts == 1


async def test_a_reader_at_another_process_gets_the_end(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        async with api.started() as second, api.client(process=second) as there, there.resume(turn) as elsewhere:
            await anext(elsewhere)
            api.agent.end(api.agent.run, "the answer")
            assert [event.data async for event in elsewhere] == [{"text": "the answer"}]


async def test_events_that_are_gone_are_recalled_from_the_transcript(api: UsersApi, ada: Client) -> None:
    turn = (await ada.whole("hello"))[0].data["id"]
    await ada.whole("and then?")
    api.process.chat._events._turns.clear()
    async with ada.resume(turn) as events:
        assert [event.data async for event in events][1:] == [{"text": "You said it: hello"}]


async def test_a_late_click_does_not_approve_the_next_request(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        run = api.agent.run
        request = {"command": "rm -rf \u202ex", "description": "danger", "choices": ["once", "deny", "rm"]}
        api.agent.push(run, "approval.request", **request)
        first = await anext(events)
        assert first.data == {
            "id": "1",
            "command": "rm -rf \\u202ex",
            "description": "danger",
            "choices": ["once", "deny"],
        }
        path = f"/chat/turns/{turn}/approval"
        assert (await ada.ask("POST", path, json={"id": "2", "choice": "once"})).status_code == 409
        assert (await ada.ask("POST", path, json={"id": "1", "choice": "always"})).status_code == 422
        answers = await asyncio.gather(*(ada.ask("POST", path, json={"id": "1", "choice": "deny"}) for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [204, 409, 409, 409]
        assert (await anext(events)).data == {"id": "1", "choice": "deny"}
        api.agent.push(run, "approval.request", command="format c:")
        assert (await anext(events)).data["id"] == "2"
        assert (await ada.ask("POST", path, json={"id": "1", "choice": "once"})).status_code == 409
        api.relay.clock.turn(56)  # the agent has refused the second by itself
        api.agent.push(run, "tool.completed", tool="terminal", error=True)
        assert [(await anext(events)).data for _ in range(2)] == [
            {"id": "2", "choice": "expired"},
            {"name": "terminal", "state": "failed", "preview": ""},
        ]
        assert (await ada.ask("POST", path, json={"id": "2", "choice": "once"})).status_code == 409
    assert run.choices == ["deny"]


async def test_a_request_that_came_late_is_approved_no_later_than_its_agent_waits(api: UsersApi, ada: Client) -> None:
    """A relay or a carrier that hung delivers it when the agent has waited for most of its minute."""
    api.agent.says = False
    now = api.relay.clock().timestamp()
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        for age_s, command in ((56, "gone"), (50, "rm x")):
            api.agent.push(api.agent.run, "approval.request", command=command, timestamp=now - age_s)
        assert (await anext(events)).data["command"] == "rm x"
        api.relay.clock.turn(6)  # the agent waits for the next request by now
        answer = await ada.ask("POST", f"/chat/turns/{turn}/approval", json={"id": "1", "choice": "once"})
        assert answer.status_code == 409
    assert api.agent.run.choices == []


async def test_an_approval_that_comes_late_to_the_agent_reaches_nothing(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that hung between its look at the request and the agent, which may have gone on to the next one."""
    monkeypatch.setattr(service, "_APPROVAL_S", 0.1)
    api.agent.says = False
    runs = api.process.chat._runs
    approve = runs.approve

    async def late(turn: Turn, choice: str, *, until: float) -> None:
        await eventually(lambda: time.time() > until, "the last moment")
        await approve(turn, choice, until=until)

    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "approval.request", command="rm x")
        await anext(events)
        path, answer = f"/chat/turns/{turn}/approval", {"id": "1", "choice": "once"}
        monkeypatch.setattr(runs, "approve", late)
        assert (await ada.ask("POST", path, json=answer)).status_code == 503
        assert api.agent.run.choices == []
        monkeypatch.setattr(runs, "approve", approve)
        monkeypatch.setattr(service, "_APPROVAL_S", 20.0)
        assert (await ada.ask("POST", path, json=answer)).status_code == 204
    assert api.agent.run.choices == ["once"]


async def test_a_request_for_approval_outlives_the_process_that_showed_it(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "approval.request", command="rm x", description="danger", choices=["once"])
        shown = await anext(events)
    await api.process.die()
    async with api.started() as second, api.client(process=second) as again, again.resume(turn, shown.id) as events:
        await anext(events)
        api.relay.clock.turn(carrier.LEASE.total_seconds() + 1)
        assert (await anext(events)).data == shown.data
        answer = await again.ask("POST", f"/chat/turns/{turn}/approval", json={"id": "1", "choice": "once"})
        assert answer.status_code == 204
    assert api.agent.run.choices == ["once"]


async def test_a_turn_is_stopped_before_and_after_its_agent_has_it(api: UsersApi, ada: Client) -> None:
    api.agent.is_away = True
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        assert (await ada.ask("POST", f"/chat/turns/{turn}/stop")).status_code == 200
        assert [(event.kind, event.data) async for event in events] == [("stopped", {})]
    assert not api.agent.runs
    api.agent.is_away, api.agent.says = False, False
    async with ada.send("hello") as events:
        turn = (await anext(events)).data["id"]
        await eventually(lambda: api.agent.runs, "the run")
        await ada.ask("POST", f"/chat/turns/{turn}/stop")
        assert [event.kind async for event in events] == ["stopped"]
    assert api.agent.stops
    again = await ada.ask("POST", f"/chat/turns/{turn}/stop")
    assert again.json()["state"] == "stopped"


async def test_a_turn_without_an_end_fails_and_its_run_is_stopped(api: UsersApi, ada: Client) -> None:
    api.agent.says = False
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.runs, "the run")
        api.relay.clock.turn(LONGEST.total_seconds() + 1)
        assert [event.kind async for event in events] == ["failed"]
    assert api.agent.stops


async def test_a_suspended_agent_ends_its_turn_and_takes_no_other(api: UsersApi, ada: Client) -> None:
    api.agent.is_away = True
    async with ada.send("hello") as events:
        await anext(events)
        api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
        assert [event.kind async for event in events] == ["failed"]
    answer = await ada.ask("POST", "/chat", json={"message": "x", "conversation": "c", "client_key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "agent-suspended")


async def test_a_stream_ends_with_the_token_it_was_opened_by(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_stream, "CHECK_S", 0.1)
    monkeypatch.setattr(turn_stream, "_KEEP_ALIVE_S", 0.05)
    api.agent.says = False
    async with ada.send("hello") as events:
        await anext(events)
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="before")
        assert (await anext(events)).data["text"] == "before"
        api.denied.add(api.ada.user_id)
        async with asyncio.timeout(10):
            assert [event async for event in events] == []


async def test_what_users_say_is_sealed_and_gone_once_it_is_answered(api: UsersApi, ada: Client) -> None:
    api.agent.is_away = True
    async with ada.send("canary of a user") as events:
        turn = (await anext(events)).data["id"]
        assert "canary" not in _dump(api)
        api.agent.is_away = False
        assert [event async for event in events][-1].kind == "done"
    row = api.rows.turns.get(api.ada.user_id, turn)
    assert row is not None
    assert row.message == ""


def _dump(api: UsersApi) -> str:
    with api.all_rows.reading() as connection:
        return "".join(str(connection.execute(table.select()).all()) for table in metadata.sorted_tables)


async def test_writes_that_wait_for_a_slow_disk_hold_no_read(api: UsersApi, ada: Client) -> None:
    with api.database.writing():  # on SQLite nobody else writes meanwhile
        sending = [asyncio.ensure_future(ada.whole(f"message {number}")) for number in range(8)]
        async with asyncio.timeout(10):
            responses = [await ada.ask("GET", "/me") for _ in range(20)]
    assert {response.status_code for response in responses} == {200}
    ended = await asyncio.gather(*sending, return_exceptions=True)
    assert any(isinstance(events, list) and events[-1].kind == "done" for events in ended)
