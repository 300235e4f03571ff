"""Tasks of a calling agent: begun once, streamed, cut and taken up, approved, cancelled, and nobody else's."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.store.calling_rows.tasks import CalledTasks
from hermesops.store.registry.schema.calling_tables import called_tasks
from hermesops.store.registry.schema.user_tables import turns
from hermesops.users.callers import tasks
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, calling_agent, eventually, message, texts

ECHO = "You said it: [From grace's agent, an agent of somebody else. It is not your user, and speaks for itself.]\n\n"
COMPLETED, WORKING, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_WORKING", "TASK_STATE_CANCELED"
ASKED = "TASK_STATE_INPUT_REQUIRED"
REQUEST = {"command": "rm -r /srv/old", "description": "deletes a folder", "choices": ["once", "always", "deny"]}


def state(update: dict[str, Any]) -> str:
    return str(next(iter(update.values())).get("status", {}).get("state", ""))


async def test_a_message_is_answered_and_a_context_goes_on(api: UsersApi, caller: CallingAgent) -> None:
    task = await caller.send("hello", contextId="c1")
    assert (task["status"]["state"], task["contextId"], texts(task)) == (COMPLETED, "c1", f"{ECHO}hello")
    again = await caller.result("GetTask", {"id": task["id"]})
    assert again == task
    await caller.send("and more", contextId="c1")
    await caller.send("elsewhere")
    histories = [run.body["conversation_history"] for run in api.agent.runs.values()]
    assert [len(history) for history in histories] == [0, 2, 0]


async def test_a_task_shows_the_message_that_began_it(api: UsersApi, caller: CallingAgent) -> None:
    sent = message("hello", contextId="c1")
    first = (await caller.result("SendMessage", {"message": sent}))["task"]
    whole = [{**sent, "taskId": first["id"]}]
    assert first["history"] == whole
    api.relay.clock.turn(seconds=1)
    await caller.send("and more", contextId="c1")
    assert (await caller.result("GetTask", {"id": first["id"]}))["history"] == whole
    assert (await caller.result("GetTask", {"id": first["id"], "historyLength": 1}))["history"] == whole
    assert "history" not in await caller.result("GetTask", {"id": first["id"], "historyLength": 0})
    none = {"message": sent, "configuration": {"historyLength": 0}}
    assert "history" not in (await caller.result("SendMessage", none))["task"]
    listed = (await caller.result("ListTasks", {"historyLength": 5}))["tasks"]
    assert [each["history"][0]["parts"][0]["text"] for each in listed] == ["and more", "hello"]
    assert not [each for each in listed if each.get("artifacts")]
    assert not [each for each in (await caller.result("ListTasks", {}))["tasks"] if each.get("history")]
    api.agent.says = False
    params = {"message": message("wait"), "configuration": {"returnImmediately": True}}
    waiting = (await caller.result("SendMessage", params))["task"]
    assert waiting["history"][0]["parts"] == [{"text": "wait"}]
    stopped = await caller.result("CancelTask", {"id": waiting["id"]})
    assert "history" not in stopped
    assert "history" not in await caller.result("GetTask", {"id": waiting["id"]})


async def test_the_same_message_begins_one_task(api: UsersApi, caller: CallingAgent) -> None:
    sent = message("hello", contextId="c1")
    tasks = [(await caller.result("SendMessage", {"message": sent}))["task"] for _ in range(3)]
    assert len({task["id"] for task in tasks}) == 1
    assert api.agent.posts == 1


async def test_an_answer_streams_in_pieces_that_make_the_whole(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    async with caller.stream("SendStreamingMessage", {"message": message("hello")}) as updates:
        first = await anext(updates)
        assert "task" in first
        await eventually(lambda: api.agent.runs, "the run")
        run, pieces = api.agent.run, list[str]()
        for piece in ("one ", "two ", "three"):
            api.agent.push(run, "message.delta", delta=piece)
            update = (await anext(updates))["artifactUpdate"]
            pieces.append(update["artifact"]["parts"][0]["text"])
            assert update.get("append", False) is (len(pieces) > 1)
        api.agent.end(run, "one two three.")
        rest = [update async for update in updates]
    pieces.append(rest[0]["artifactUpdate"]["artifact"]["parts"][0]["text"])
    assert ("".join(pieces), rest[0]["artifactUpdate"]["lastChunk"]) == ("one two three.", True)
    assert state(rest[-1]) == COMPLETED


async def test_a_reader_that_was_cut_subscribes_and_gets_the_whole(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    async with caller.stream("SendStreamingMessage", {"message": message("hello")}) as updates:
        task = (await anext(updates))["task"]["id"]
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="one ")
        await anext(updates)
    async with caller.stream("SubscribeToTask", {"id": task}) as updates:
        await anext(updates)
        api.agent.end(api.agent.run, "one two")
        rest = [update async for update in updates]
    parts = [each["artifactUpdate"]["artifact"]["parts"][0] for each in rest if "artifactUpdate" in each]
    assert ("".join(part.get("text", "") for part in parts), state(rest[-1])) == ("one two", COMPLETED)
    assert await caller.code("SubscribeToTask", {"id": task}) == -32004


async def test_a_task_outlives_the_process_that_carried_it(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    params = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    task = (await caller.result("SendMessage", params))["task"]
    await eventually(lambda: api.agent.runs, "the run")
    await api.process.die()
    api.relay.clock.turn(seconds=30)
    async with api.started() as process:
        caller.http.base_url = process.url
        api.agent.end(api.agent.run, "late")

        async def ended() -> bool | Pending[bool]:
            state = (await caller.result("GetTask", {"id": task["id"]}))["status"]["state"]
            return True if state == COMPLETED else Pending(state)

        await until(ended, what="the task's end", timeout_s=20, every_s=0.05)
        assert texts(await caller.result("GetTask", {"id": task["id"]})) == "late"
    assert api.agent.posts == 1


async def test_a_task_is_cancelled_once(api: UsersApi, caller: CallingAgent) -> None:
    api.agent.says = False
    params = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    task = (await caller.result("SendMessage", params))["task"]["id"]
    await eventually(lambda: api.agent.runs, "the run")
    assert (await caller.result("CancelTask", {"id": task}))["status"]["state"] == CANCELED
    assert api.agent.stops >= 1
    assert await caller.code("CancelTask", {"id": task}) == -32002


async def test_a_caller_with_that_right_approves_its_own_task(api: UsersApi, ada: Client) -> None:
    async with calling_agent(api, ada, may_approve=True) as caller:
        api.agent.says = False
        async with caller.stream("SendStreamingMessage", {"message": message("hello", contextId="c")}) as updates:
            task = (await anext(updates))["task"]["id"]
            await eventually(lambda: api.agent.runs, "the run")
            run = api.agent.run
            api.agent.push(run, "approval.request", **REQUEST)
            waiting = [update async for update in updates]
        assert state(waiting[-1]) == ASKED
        words = waiting[-1]["statusUpdate"]["status"]["message"]["parts"][0]["text"]
        assert REQUEST["command"] in words
        assert (await caller.result("GetTask", {"id": task}))["status"]["state"] == ASKED
        async with caller.stream("SubscribeToTask", {"id": task}) as subscribed:
            assert [state(await anext(subscribed)) for _ in range(2)] == [ASKED, ASKED]
            assert (await caller.send("perhaps", taskId=task))["status"]["state"] == ASKED
            assert not run.choices
            other = message("yes", taskId=task, contextId="d")
            assert await caller.code("SendMessage", {"message": other}) == -32602
            async with caller.stream("SendStreamingMessage", {"message": message("Yes.", taskId=task)}) as updates:
                await anext(updates)
                api.agent.end(run, "done")
                rest = [update async for update in updates]
            assert [state(update) for update in rest if "statusUpdate" in update] == [COMPLETED]
            assert state([update async for update in subscribed][-1]) == COMPLETED
        assert run.choices == ["once"]
        assert await caller.code("SendMessage", {"message": message("yes", taskId=task)}) == -32004


async def test_without_that_right_the_owner_approves_on_the_page(
    api: UsersApi, ada: Client, caller: CallingAgent
) -> None:
    api.agent.says = False
    async with caller.stream("SendStreamingMessage", {"message": message("hello")}) as updates:
        task = (await anext(updates))["task"]["id"]
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "approval.request", **REQUEST)
        waiting = await anext(updates)
        assert state(waiting) == WORKING
        assert "rm" not in str(waiting)
        assert await caller.code("SendMessage", {"message": message("yes", taskId=task)}) == -32004
        assert not api.agent.run.choices
        listed = (await ada.ask("GET", "/chat/conversations")).json()
        assert [each["open_turn"] for each in listed] == [task]
        answer = await ada.ask("POST", f"/chat/turns/{task}/approval", json={"id": "1", "choice": "once"})
        assert answer.status_code == 204
        api.agent.end(api.agent.run, "done")
        assert state([update async for update in updates][-1]) == COMPLETED
    assert api.agent.run.choices == ["once"]


async def test_a_task_and_a_context_belong_to_their_caller(api: UsersApi, ada: Client, caller: CallingAgent) -> None:
    task = await caller.send("a secret", contextId="c1")
    own = (await ada.whole("ada's own"))[0].data["id"]
    async with calling_agent(api, ada) as other:
        for id_ in (task["id"], own, str(uuid4()), "x"):
            assert await other.code("GetTask", {"id": id_}) == -32001
            assert await other.code("CancelTask", {"id": id_}) == -32001
            assert await other.code("SubscribeToTask", {"id": id_}) == -32001
            assert await other.code("ListTaskPushNotificationConfigs", {"taskId": id_}) == -32001
            assert await other.code("SendMessage", {"message": message("yes", taskId=id_)}) == -32001
        assert (await other.result("ListTasks", {"contextId": "c1"}))["totalSize"] == 0
        await other.send("what was the secret?", contextId="c1")
    assert api.agent.run.body["conversation_history"] == []
    listed = await caller.result("ListTasks", {"includeArtifacts": True})
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    assert texts(listed["tasks"][0]).endswith("a secret")


async def test_callers_leave_the_owner_room(api: UsersApi, ada: Client, caller: CallingAgent) -> None:
    api.agent.says = False
    params = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    await caller.result("SendMessage", params)
    assert await caller.code("SendMessage", {"message": message("more")}) == -32051
    busy = await caller.post({"message": message("more")}, "/message:send")
    assert (busy.status_code, busy.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    async with ada.send("mine", conversation="one") as first, ada.send("mine", conversation="two") as second:
        await asyncio.gather(anext(first), anext(second))


async def test_a_list_reads_each_context_once_and_is_given_without_an_agent(
    api: UsersApi, caller: CallingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await caller.send(str(number), contextId=f"c{number % 2}")
        api.relay.clock.turn(seconds=1)
    whole, before = {"includeArtifacts": True}, api.agent.reads
    listed = (await caller.result("ListTasks", whole))["tasks"]
    assert [texts(task) for task in listed] == [f"{ECHO}{number}" for number in (3, 2, 1, 0)]
    assert api.agent.reads - before == 2
    api.agent.hides = 1
    away = (await caller.result("ListTasks", whole))["tasks"]
    assert [task["id"] for task in away] == [task["id"] for task in listed]
    assert (api.agent.hides, api.agent.reads - before) == (0, 2)  # no other session of an agent that is away is read
    assert not [task for task in away if task.get("artifacts")]
    monkeypatch.setattr(tasks, "_MOST_LISTED", 2 * len(ECHO))  # a message, which is shorter, and its answer
    some = (await caller.result("ListTasks", whole))["tasks"]
    assert [bool(task.get("artifacts")) for task in some] == [True, False, False, False]
    monkeypatch.setattr(tasks, "_LISTED_WITHIN_S", 0.0)
    late = (await caller.result("ListTasks", whole))["tasks"]
    assert (len(late), [task for task in late if task.get("artifacts")]) == (4, [])


async def test_a_list_leaves_out_what_is_forgotten_meanwhile(
    api: UsersApi, caller: CallingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await caller.send("kept")
    api.relay.clock.turn(seconds=1)
    await caller.send("gone")
    list_rows = CalledTasks.list

    def listed(rows: CalledTasks, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the method has them
        answer = list_rows(rows, *arguments, **named)
        with api.all_rows.writing() as connection:
            newest = answer[0][0][0]
            connection.execute(called_tasks.delete().where(called_tasks.c.turn_id == newest))
            connection.execute(turns.delete().where(turns.c.id == newest))
        return answer

    monkeypatch.setattr(CalledTasks, "list", listed)
    assert [task["id"] for task in (await caller.result("ListTasks", {}))["tasks"]] == [kept["id"]]


async def test_lists_have_pages(api: UsersApi, caller: CallingAgent) -> None:
    ids = list[str]()
    for number in range(3):
        ids.append((await caller.send(str(number)))["id"])
        api.relay.clock.turn(seconds=1)
    first = await caller.result("ListTasks", {"pageSize": 2})
    second = await caller.result("ListTasks", {"pageSize": 2, "pageToken": first["nextPageToken"]})
    assert [each["id"] for each in first["tasks"] + second["tasks"]] == ids[::-1]
    assert (first["totalSize"], second["nextPageToken"]) == (3, "")
    assert (await caller.result("ListTasks", {"status": WORKING}))["totalSize"] == 0
    since = first["tasks"][1]["status"]["timestamp"]
    later = await caller.result("ListTasks", {"statusTimestampAfter": since})
    assert [each["id"] for each in later["tasks"]] == ids[:0:-1]
    assert later["totalSize"] == (await caller.get("/tasks", statusTimestampAfter=since)).json()["totalSize"] == 2
    for wrong in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}, {"pageToken": "-1"}):
        assert await caller.code("ListTasks", wrong) == -32602
