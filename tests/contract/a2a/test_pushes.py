"""Notifications of tasks: signed, by TLS to allowed hosts on the internet alone, at least once, and bounded."""

import asyncio
import hmac
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.network.public_hosts import PublicNetwork, is_host, is_of_internet
from hermesops.base.waiting import cancel
from hermesops.model.chat.caller import MOST_TRIES
from hermesops.store.calling_rows.pushes import MOST, Push
from hermesops.store.registry.schema.calling_tables import task_pushes
from hermesops.users.callers import pushes
from hermesops.users.callers.pushes import PushRefusedError, refuse_address, signature
from tests.support.suite.cases import each_case
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, calling_agent, eventually, message
from tests.support.users.notified import HOSTNAME, Receiver, receiving

URL = f"https://{HOSTNAME}/task?of=ada"
REQUEST = {"command": "ls", "description": "lists", "choices": ["once", "deny"]}


@pytest.fixture
async def receiver(tmp_path: Path, api: UsersApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    """A host that the sender of ada's process reaches, as it would the internet's."""
    monkeypatch.setattr(pushes, "_LOOK_S", 0.02)
    monkeypatch.setattr(pushes, "_AGAIN", timedelta(0))
    monkeypatch.setattr(pushes, "_FIRST_PAUSE", timedelta(0))
    monkeypatch.setattr(pushes, "_ABSENT_PAUSE", timedelta(0))
    async with receiving(tmp_path) as receiver:
        sender: Any = api.calling.sender
        sender._network = receiver.network
        sending = asyncio.ensure_future(sender.run())
        yield receiver
        await cancel(sending)


@pytest.fixture
async def caller(api: UsersApi, ada: Client) -> AsyncIterator[CallingAgent]:
    async with calling_agent(api, ada, push_hosts=[HOSTNAME], may_approve=True) as caller:
        yield caller


WORDS = {
    "id": "the id of the address",
    "token": "visible characters",
    "credentials": "visible characters",
    "scheme": "bearer or basic",
}
"""Of refusals, by the field; those of an address differ."""


def has_ended(api: UsersApi, task: str) -> bool:
    """Whether nothing more is sent to the address of a task."""
    with api.all_rows.reading() as connection:
        query = task_pushes.select().where(task_pushes.c.turn_id == task)
        return connection.execute(query).one().ended_at is not None


def begun(text: str, **push: object) -> dict[str, object]:
    config = {"id": "p1", "url": URL, **push}
    configuration = {"returnImmediately": True, "taskPushNotificationConfig": config}
    return {"message": message(text), "configuration": configuration}


async def test_a_caller_is_notified_of_the_end_and_can_tell_by_whom(caller: CallingAgent, receiver: Receiver) -> None:
    proof = {"token": "mine", "authentication": {"scheme": "Bearer", "credentials": "theirs"}}
    task = (await caller.result("SendMessage", begun("hello", **proof)))["task"]
    await eventually(lambda: receiver.taken, "the notification")
    head, body = receiver.taken[0]
    assert (head["request"], head["host"]) == ("POST /task?of=ada HTTP/1.1", HOSTNAME)
    assert (head["x-a2a-notification-token"], head["authorization"]) == ("mine", "Bearer theirs")
    shown = json.loads(body)["task"]
    assert (shown["id"], shown["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
    at, _, mac = head["x-hermesops-signature"].partition(",v1=")
    signed = f"{at.removeprefix('t=')}.".encode() + body
    assert mac == hmac.new(sha256(caller.key.encode()).hexdigest().encode(), signed, sha256).hexdigest()
    assert caller.key not in str(receiver.taken)
    assert receiver.states == ["TASK_STATE_COMPLETED"]


async def test_a_request_for_approval_is_notified_and_then_the_end(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.push(api.agent.run, "approval.request", **REQUEST)
    await eventually(lambda: receiver.states == ["TASK_STATE_INPUT_REQUIRED"], "the request")
    await caller.result(
        "SendMessage", {"message": message("yes", taskId=task), "configuration": {"returnImmediately": True}}
    )
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: receiver.states[1:] == ["TASK_STATE_COMPLETED"], "the end")


@pytest.mark.parametrize("status", ["204 No Content", "307 Moved"])
async def test_a_host_that_refuses_is_notified_again_and_no_redirect_is_followed(
    caller: CallingAgent, receiver: Receiver, status: str
) -> None:
    receiver.fails, receiver.status = 2, status
    await caller.result("SendMessage", begun("hello"))
    tries = 3 if status.startswith("204") else MOST_TRIES
    await eventually(lambda: len(receiver.taken) == tries, "the tries")
    await caller.send("more")  # the sender has looked again meanwhile
    assert len(receiver.taken) == tries
    assert {head["request"] for head, _ in receiver.taken} == {"POST /task?of=ada HTTP/1.1"}


async def test_a_state_is_given_up_and_the_end_is_notified_nevertheless(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says, receiver.fails = False, MOST_TRIES
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.push(api.agent.run, "approval.request", **REQUEST)
    await eventually(lambda: not receiver.fails, "the tries")
    await caller.result(
        "SendMessage", {"message": message("yes", taskId=task), "configuration": {"returnImmediately": True}}
    )
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: receiver.states[MOST_TRIES:] == ["TASK_STATE_COMPLETED"], "the end")
    assert set(receiver.states[:MOST_TRIES]) == {"TASK_STATE_INPUT_REQUIRED"}
    await eventually(partial(has_ended, api, task), "the end of the address")


async def test_an_agent_that_is_away_costs_its_callers_host_no_try(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.hides = 1_000_000
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: api.agent.hides < 1_000_000 - 2 * MOST_TRIES, "looks at the agent")
    assert (receiver.taken, has_ended(api, task)) == ([], False)
    assert api.relay.registry.callers.notified().undelivered == 0
    api.agent.hides = 0
    await eventually(lambda: receiver.taken, "the notification")
    assert "done" in json.dumps(json.loads(receiver.taken[0][1])["task"]["artifacts"])


async def test_of_an_agent_that_is_away_for_hours_the_state_is_notified(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.hides = 1_000_000
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: api.agent.hides < 1_000_000, "a look at the agent")
    api.relay.clock.turn(6 * 3600 + 1)
    await eventually(partial(has_ended, api, task), "the end of the address")
    assert receiver.states == ["TASK_STATE_COMPLETED"]
    assert "artifacts" not in json.loads(receiver.taken[0][1])["task"]


async def test_a_host_that_hangs_delays_no_other_caller(
    api: UsersApi, ada: Client, caller: CallingAgent, receiver: Receiver
) -> None:
    sender: Any = api.calling.sender
    hanging = asyncio.Event()

    async def resolve(host: str) -> list[str]:
        if host == "evil.example.com":
            hanging.set()
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    sender._network = replace(sender._network, resolve=resolve)
    async with calling_agent(api, ada, push_hosts=["evil.example.com"]) as other:
        addresses = [{"id": f"p{number}", "url": "https://evil.example.com/"} for number in range(MOST)]
        task = (await other.result("SendMessage", begun("hello", **addresses[0])))["task"]["id"]
        for address in addresses[1:]:
            await other.result("CreateTaskPushNotificationConfig", {"taskId": task, **address})
        await asyncio.wait_for(hanging.wait(), 20)
        began = time.monotonic()
        await caller.result("SendMessage", begun("hello"))
        await eventually(lambda: receiver.taken, "the notification")
    assert time.monotonic() - began < pushes._WITHIN_S


async def test_an_address_outside_the_internet_and_another_name_get_nothing(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    sender: Any = api.calling.sender
    network: PublicNetwork = sender._network
    sender._network = replace(network, is_allowed=is_of_internet)
    for number, changed in enumerate(
        (replace(network, is_allowed=is_of_internet), replace(network, verify=ssl.create_default_context))
    ):
        sender._network = changed
        task = (await caller.result("SendMessage", begun(str(number))))["task"]["id"]
        await eventually(partial(has_ended, api, task), "the end of the address")
    assert not receiver.taken


async def test_a_host_that_the_user_allows_no_more_gets_nothing(
    api: UsersApi, ada: Client, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    await ada.ask("DELETE", f"/callers/{caller.id}")
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: has_ended(api, task), "the end of the address")
    assert not receiver.taken


async def test_an_address_that_does_not_open_holds_no_other_up(
    api: UsersApi, caller: CallingAgent, receiver: Receiver
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    lost = {"taskId": task, "id": "lost", "url": URL}
    await caller.result("CreateTaskPushNotificationConfig", lost)
    with api.all_rows.writing() as connection:
        is_it = task_pushes.c.id == "lost"
        connection.execute(task_pushes.update().where(is_it).values(content="hs1.other.x"))
    await eventually(lambda: api.agent.runs, "the run")
    api.agent.end(api.agent.run, "done")
    await eventually(lambda: receiver.states == ["TASK_STATE_COMPLETED"], "the notification")


async def test_addresses_are_listed_changed_and_deleted_by_their_caller(
    api: UsersApi, ada: Client, caller: CallingAgent
) -> None:
    api.agent.says = False
    task = (await caller.result("SendMessage", begun("hello")))["task"]["id"]
    named = {"taskId": task, "id": "p1"}
    assert (await caller.result("GetTaskPushNotificationConfig", named))["url"] == URL
    await caller.result("CreateTaskPushNotificationConfig", named | {"url": f"https://{HOSTNAME}/2"})
    for number in range(MOST - 1):
        await caller.result("CreateTaskPushNotificationConfig", {"taskId": task, "id": f"q{number}", "url": URL})
    more = {"taskId": task, "id": "r", "url": URL}
    assert await caller.code("CreateTaskPushNotificationConfig", more) == -32602
    listed = await caller.result("ListTaskPushNotificationConfigs", {"taskId": task})
    assert {config["id"] for config in listed["configs"]} == {"p1", *(f"q{number}" for number in range(MOST - 1))}
    async with calling_agent(api, ada, push_hosts=[HOSTNAME]) as other:
        for method in ("GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"):
            assert await other.code(method, named) == -32001
    await caller.result("DeleteTaskPushNotificationConfig", named)
    assert await caller.code("GetTaskPushNotificationConfig", named) == -32001


@each_case(
    "changes",
    [
        {"url": "http://hooks.example.com/"},
        {"url": "https://other.example.com/"},
        {"url": "https://hooks.example.com.evil.test/"},
        {"url": "https://hooks.example.com:8443/"},
        {"url": "https://user@hooks.example.com/"},
        {"url": "https://hooks.example.com@evil.test/"},
        {"url": "https://hooks.example.com/#f"},
        {"url": "https://hooks.example.com/a b"},
        {"url": "https://hooks.example.com/\r\nx: y"},
        {"url": "https://[::1]/"},
        {"url": "https://127.0.0.1/"},
        {"url": "https://hooks.example.com/" + "x" * 1_000},
        {"url": "file:///etc/passwd"},
        {"url": "https://hooks.example.com:x/"},
        {"id": "../p"},
        {"token": "a\r\nb"},
        {"token": "x" * 1_001},
        {"scheme": "Digest"},
        {"credentials": "é"},
    ],
    ids=str,
)
def test_other_addresses_are_refused(changes: dict[str, Any]) -> None:
    words = WORDS.get(
        next(iter(changes)), "the address must begin with https|does not allow notifications|is not a URL"
    )
    push = Push("t", "p", URL)
    refuse_address(push, [HOSTNAME])
    with pytest.raises(PushRefusedError, match=words):
        refuse_address(replace(push, **changes), [HOSTNAME, "127.0.0.1"])


@each_case(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.1.2.3", "::1"),
        *("fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "224.0.0.1", "ff02::1", "2002:0a00:0001::", "240.0.0.1", "::"),
        "64:ff9b::a00:1",
    ],
    ids=str,
)
def test_private_and_special_addresses_are_none_of_the_internet(address: str) -> None:
    assert not is_of_internet(address)


def test_others_are() -> None:
    assert is_of_internet("93.184.216.34")
    assert is_of_internet("2606:2800:220:1:248:1893:25c8:1946")
    assert is_host("a.example.com")
    assert not any(map(is_host, ("a", "1.2.3.4", "a..b", "a.b:1", "A.example.com", "a.example.com.", "x" * 254)))


def test_a_signature_is_of_its_key_moment_and_body() -> None:
    signed = {signature(key, at, body) for key in ("a", "b") for at in (1, 2) for body in (b"x", b"y")}
    assert len(signed) == 8
