"""Callers of either version of the protocol, by JSON-RPC, by REST, and by the SDK's own client."""

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState

from tests.support.users.api import UsersApi
from tests.support.users.calling import CallingAgent, eventually, message, rpc

OLDER = {"kind": "message", "role": "user", "messageId": "m1", "parts": [{"kind": "text", "text": "hello"}]}


async def test_a_caller_of_0_3_sends_as_the_seed_does(api: UsersApi, caller: CallingAgent) -> None:
    caller.version = ""
    task = await caller.result("message/send", {"message": OLDER})
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["artifacts"][0]["parts"][0]["text"].endswith("hello")
    assert await caller.result("tasks/get", {"id": task["id"]}) == task
    assert await caller.code("tasks/get", {"id": "other"}) == -32001
    assert await caller.code("tasks/cancel", {"id": task["id"]}) == -32002
    api.agent.says = False
    streamed = OLDER | {"messageId": "m2"}
    async with caller.stream("message/stream", {"message": streamed}) as updates:
        assert (await anext(updates))["kind"] == "task"
        await eventually(lambda: api.agent.run.status == "running", "the run")
        api.agent.push(api.agent.run, "message.delta", delta="one ")
        assert (await anext(updates))["kind"] == "artifact-update"
        api.agent.end(api.agent.run, "one two")
        rest = [update async for update in updates]
    assert (rest[-1]["status"]["state"], rest[-1]["final"]) == ("completed", True)


async def test_the_card_of_0_3_is_below_an_address_of_its_own(caller: CallingAgent) -> None:
    path = "/.well-known/agent-card.json"
    answers = [await caller.http.get(f"{caller.path}{base}{path}") for base in ("", "", "/v0.3")]
    tags = [answer.headers["etag"] for answer in answers]
    assert tags[0] == tags[1] != tags[2]
    card, _, older = (answer.json() for answer in answers)
    assert "protocolVersion" not in card
    assert (older["protocolVersion"], older["preferredTransport"]) == ("0.3", "JSONRPC")
    caller.version, caller.path = "", httpx.URL(older["url"]).path
    assert (await caller.result("message/send", {"message": OLDER}))["status"]["state"] == "completed"


async def test_rest_answers_as_json_rpc_does(api: UsersApi, caller: CallingAgent) -> None:
    sent = await caller.post({"message": message("hello", contextId="c")}, "/message:send")
    assert (sent.status_code, sent.headers["content-type"]) == (200, "application/json")
    task = sent.json()["task"]
    shown = await caller.get(f"/tasks/{task['id']}")
    assert shown.json() == task == await caller.result("GetTask", {"id": task["id"]})
    listed = (await caller.get("/tasks", contextId="c")).json()
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    ended = await caller.post(b"", f"/tasks/{task['id']}:cancel")
    assert (ended.status_code, ended.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert (await caller.get("/tasks/x")).status_code == 404
    assert api.agent.posts == 1


async def test_a_version_that_nobody_speaks_is_refused(caller: CallingAgent) -> None:
    caller.version = "2.0"
    assert await caller.code("GetTask", {"id": "x"}) == -32009
    assert (await caller.get("/tasks/x")).status_code == 400
    caller.version = ""
    answer = await caller.post(rpc("GetTask", {"id": "x"}))
    assert answer.json()["error"]["code"] == -32009  # without the header it is 0.3, which has no such method


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_sdks_own_client_finds_the_card_and_streams(caller: CallingAgent, binding: str) -> None:
    headers = {"authorization": f"Bearer {caller.key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        client = await create_client(f"{str(caller.http.base_url).rstrip('/')}{caller.path}", config)
        question = Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text="hello")])
        updates = [update async for update in client.send_message(SendMessageRequest(message=question))]
        assert updates[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        task = await client.get_task(GetTaskRequest(id=updates[0].task.id))
        assert task.artifacts[0].parts[0].text.endswith("hello")
