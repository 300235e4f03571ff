"""Who may call: keys made and revoked by the user, one agent each, limits, and what strangers learn."""

import asyncio
from itertools import count

import pytest

from hermesops.a2a import handler
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.serving.limits import RATES
from hermesops.store.calling_rows.callers import MOST, AgentCallers, digest
from hermesops.store.registry.schema.calling_tables import agent_callers
from tests.support.real.stores.registries import placed
from tests.support.suite.cases import each_case
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, calling_agent, eventually, make_caller, message

CARD = "/.well-known/agent-card.json"
SEND = {"message": message("hello")}


async def refused(caller: CallingAgent) -> tuple[int, str]:
    answer = await caller.post({"message": message("hello")}, "/message:send")
    return answer.status_code, answer.json()["code"]


async def test_a_key_is_shown_once_and_kept_as_a_digest(api: UsersApi, ada: Client) -> None:
    body = {"name": "  grace's\nagent ", "client_key": "k", "push_hosts": ["Hooks.Example.com"], "may_approve": True}
    document = (await ada.ask("POST", "/callers", json=body)).json()
    assert document["caller"]["name"] == "grace's agent"
    again = await ada.ask("POST", "/callers", json=body)
    assert (again.status_code, again.json()["key"], again.json()["caller"]) == (201, None, document["caller"])
    listed = await ada.ask("GET", "/callers")
    assert listed.json() == {"address": document["address"], "callers": [document["caller"]]}
    assert document["caller"]["push_hosts"] == ["hooks.example.com"]
    with api.all_rows.reading() as connection:
        rows = connection.execute(agent_callers.select()).all()
    assert [row.key_hash for row in rows] == [digest(document["key"])]
    assert document["key"] not in str(rows)
    assert "grace" not in str(rows)


async def test_a_revoked_key_opens_nothing_and_another_users_is_not_revoked(
    api: UsersApi, ada: Client, caller: CallingAgent
) -> None:
    await caller.send("hello")
    async with api.client(api.user("mallory")) as mallory:
        answer = await mallory.ask("DELETE", f"/callers/{caller.id}")
        assert (answer.status_code, answer.json()["code"]) == (404, "no-such-caller")
        assert (await mallory.ask("GET", "/callers")).json() == {"address": None, "callers": []}
    await caller.send("hello")
    assert (await ada.ask("DELETE", f"/callers/{caller.id}")).status_code == 204
    assert await refused(caller) == (401, "unknown-caller")
    assert (await ada.ask("DELETE", f"/callers/{caller.id}")).status_code == 404
    assert api.agent.posts == 2


async def test_a_stream_ends_with_its_key(
    api: UsersApi, ada: Client, caller: CallingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "_CHECK_S", 0.0)
    api.agent.says = False
    async with caller.stream("SendStreamingMessage", {"message": message("hello")}) as updates:
        await anext(updates)
        await eventually(lambda: api.agent.runs, "the run")
        api.agent.push(api.agent.run, "message.delta", delta="one")
        assert "artifactUpdate" in await anext(updates)
        await ada.ask("DELETE", f"/callers/{caller.id}")
        api.agent.push(api.agent.run, "message.delta", delta="two")
        assert [update async for update in updates] == []


@each_case("key", ["hma_", "x" * 47, "hma_" + "x" * 43, "hma_" + "x" * 5000, "hma_é"], ids=lambda key: key[:8])
async def test_other_keys_open_nothing(caller: CallingAgent, key: str) -> None:
    header = f"Bearer {key}".encode()
    answer = await caller.http.post(f"{caller.path}/message:send", json=SEND, headers={b"authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "unknown-caller")


async def test_a_page_session_and_a_users_token_are_no_keys(api: UsersApi, caller: CallingAgent) -> None:
    caller.key = api.token()
    assert await refused(caller) == (401, "unknown-caller")


async def test_strangers_learn_of_no_agent(api: UsersApi, ada: Client) -> None:
    path = f"/a2a/{api.ada.id}"
    unknown = path[:-1] + ("0" if path[-1] != "0" else "1")
    async with calling_agent(api, ada) as caller:
        await ada.ask("DELETE", f"/callers/{caller.id}")
        bodies = set()
        for address in (path, unknown):
            card = await caller.http.get(f"{address}{CARD}")
            call = await caller.http.post(f"{address}/", json=SEND, headers=caller.headers)
            assert (card.status_code, call.status_code) == (404, 401)
            bodies.add((card.text, call.json()["detail"]))
        assert len(bodies) == 1
        for other in ("/a2a", "/a2a/", "/a2a/..", f"{path}/../x", f"{path.upper()}/", "/.well-known/agent-card.json"):
            assert (await caller.http.get(other)).status_code in {307, 401, 404}


async def test_a_card_names_neither_user_nor_machine(api: UsersApi, caller: CallingAgent) -> None:
    card = (await caller.http.get(f"{caller.path}{CARD}")).json()
    assert {each["url"].removesuffix("/v0.3") for each in card["supportedInterfaces"]} == {
        f"{api.process.url}{caller.path}"
    }
    assert card["capabilities"]["streaming"] is True
    for word in ("ada", api.ada.user_id):
        assert word not in str(card)
    extended = await caller.result("GetExtendedAgentCard", {})
    assert extended["name"] == card["name"]


async def test_a_denied_users_keys_and_a_suspended_agents_do_not_work(api: UsersApi, caller: CallingAgent) -> None:
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
    assert await refused(caller) == (409, "agent-suspended")
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.RUNNING)
    api.denied.add(api.ada.user_id)
    assert await refused(caller) == (401, "unknown-caller")
    api.denied.clear()
    api.relay.registry.terminations.terminate(api.ada.id)
    assert await refused(caller) == (401, "unknown-caller")
    assert not api.agent.posts


async def test_a_caller_that_asks_too_often_waits_and_others_do_not(
    api: UsersApi, ada: Client, caller: CallingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling_agent(api, ada) as other:
        monkeypatch.setattr(api.process.parts.limits, "_monotonic", lambda: 0.0)
        most = int(RATES["read"].burst)
        codes = [(await caller.get("/tasks/x")).status_code for _ in range(most + 1)]
        assert codes == [404] * most + [429]
        assert (await other.get("/tasks/x")).status_code == 404
        turns = int(RATES["turn"].burst)
        refusals = [await other.code("SendMessage", {"message": message("x", taskId="t")}) for _ in range(turns + 1)]
        assert refusals == [-32001] * turns + [-32051]


async def test_addresses_that_are_made_anew_have_hosts_tried_as_often_as_changes_are_allowed(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling_agent(api, ada, push_hosts=["hooks.example.com"]) as caller:
        task = (await caller.send("hello"))["id"]
        monkeypatch.setattr(api.process.parts.limits, "_monotonic", lambda: 0.0)
        monkeypatch.setattr(api.process.parts.limits, "_buckets", {})
        address = {"taskId": task, "id": "p", "url": "https://hooks.example.com/"}
        for _ in range(int(RATES["change"].burst)):
            await caller.result("CreateTaskPushNotificationConfig", address)
            await caller.result("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "p"})
        assert await caller.code("CreateTaskPushNotificationConfig", address) == -32051


async def test_a_user_has_so_many_callers(api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = count()
    monkeypatch.setattr(api.process.parts.limits, "_monotonic", lambda: next(minutes) * 60.0)
    for _ in range(MOST):
        await make_caller(ada)
    answer = await ada.ask("POST", "/callers", json={"name": "one more", "client_key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "too-many-callers")


@each_case(
    "changes",
    [
        {"name": ""},
        {"name": " "},
        {"name": "x" * 61},
        {"client_key": "../k"},
        {"push_hosts": ["localhost"]},
        {"push_hosts": ["10.0.0.1"]},
        {"push_hosts": ["a.example.com:8443"]},
        {"push_hosts": ["https://example.com"]},
        {"push_hosts": ["example.com"] * 11},
        {"push_hosts": ["-a.example.com"]},
        {"may_approve": "yes"},
        {"user": "grace"},
    ],
    ids=str,
)
async def test_other_callers_are_refused(ada: Client, changes: dict[str, object]) -> None:
    answer = await ada.ask("POST", "/callers", json={"name": "a", "client_key": "k", **changes})
    assert answer.status_code == 422


def add(rows: AgentCallers, agent: Instance, number: int) -> bool:
    """Add a caller of an agent; whether it was added."""
    names = (agent.user_id, agent.id, f"{agent.id}-{number}", f"key-{agent.id}-{number}")
    return rows.add(*names, name="x", push_hosts=[], may_approve=False)[1]


async def test_callers_of_a_terminated_agent_take_no_place_of_others(api: UsersApi) -> None:
    rows, registry = api.calling_rows.callers, api.relay.registry
    assert all(add(rows, api.ada, number) for number in range(MOST))
    registry.terminations.terminate(api.ada.id)
    second = placed(registry)
    assert second.user_id == api.ada.user_id
    assert add(rows, second, 0)
    assert [caller.instance_id for caller in rows.list(second.user_id)] == [second.id]


async def test_requests_at_once_make_no_more_callers_than_one_after_the_other(api: UsersApi) -> None:
    rows = api.calling_rows.callers
    added = await asyncio.gather(*(asyncio.to_thread(add, rows, api.ada, number) for number in range(2 * MOST)))
    assert (sum(added), len(rows.list(api.ada.user_id))) == (MOST, MOST)
