"""Callers as operators see them: counts, no name and no host; a key that an operator ends, in the operator's name."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from hermesops.automation.monitor.metrics.figures import notified_series
from hermesops.errors import RefusedError, UsageError
from hermesops.model.chat.caller import MOST_TRIES, CallerState, NotifiedCallers
from hermesops.store.calling_rows.pushes import Push, TaskPushes
from hermesops.store.registry.schema.calling_tables import task_pushes
from hermesops.users.callers.directory import CallingAgents
from hermesops.views.users.callers import caller as shape
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, calling_agent, make_caller, message

HOST = "hooks.example.com"
WHY = "its host is away"


def directory(api: UsersApi) -> CallingAgents:
    return CallingAgents(api.relay.registry)


def pushed(api: UsersApi, task: str, **values: object) -> None:
    """Give a task an address whose row has these values."""
    pushes: TaskPushes = api.calling_rows.pushes
    if not pushes.list(task):
        assert pushes.put(Push(task, "p", f"https://{HOST}/"))
    with api.all_rows.writing() as connection:
        connection.execute(task_pushes.update().where(task_pushes.c.turn_id == task).values(values))


async def test_operators_see_use_by_counts_and_nothing_that_a_user_named(
    api: UsersApi, ada: Client, caller: CallingAgent
) -> None:
    async with calling_agent(api, ada, name="canary0name", push_hosts=[HOST], may_approve=True) as other:
        await other.send("hello")
        api.agent.says = False
        begun = {"message": message("more"), "configuration": {"returnImmediately": True}}
        task = (await other.result("SendMessage", begun))["task"]["id"]
    pushed(api, task, tries=3)
    records = {record.id: record for record in directory(api).list()}
    record, idle = records[other.id], records[caller.id]
    assert (record.state, record.may_approve, record.user_id) == (CallerState.LIVE, True, api.ada.user_id)
    assert (record.tasks, record.open_tasks, record.failed_tasks, record.undelivered) == (2, 1, 0, 1)
    assert (idle.tasks, idle.undelivered, idle.used_at) == (0, 0, None)
    assert record.used_at is not None
    assert not {"canary0name", HOST, other.key} & set(str(shape(record)).split("'"))
    assert [each.id for each in directory(api).list(undelivered=True)] == [other.id]
    assert [each.id for each in directory(api).list(user="ada", limit=1)] in ([other.id], [caller.id])
    assert not directory(api).list(user=api.user("bob"))


async def test_an_operator_ends_a_key_once_and_for_a_reason(api: UsersApi, ada: Client, caller: CallingAgent) -> None:
    registry = api.relay.registry
    for text, reason, words in ((caller.id, "", "say why"), ("x", WHY, "is an id"), (str(uuid4()), WHY, "no caller")):
        with pytest.raises(UsageError, match=words):
            directory(api).revoke(text, reason=reason)
    assert (await caller.get("/tasks")).status_code == 200
    assert directory(api).revoke(caller.id, reason=WHY).state is CallerState.REVOKED
    assert (await caller.get("/tasks")).status_code == 401
    with pytest.raises(RefusedError, match="revoked already"):
        directory(api).revoke(caller.id, reason=WHY)
    entries = sorted(registry.audit.list(), key=lambda entry: entry.id)
    changes = [(entry.action, entry.who, entry.why) for entry in entries if entry.action.startswith("caller_")]
    assert changes == [("caller_made", f"user:{api.ada.user_id}", ""), ("caller_revoked", registry.actor, WHY)]
    assert (registry.callers.unrecorded(), registry.callers.record()) == (0, 0)
    again = await ada.ask("DELETE", f"/callers/{caller.id}")
    assert again.status_code == 404
    assert (await make_caller(ada))["key"]


async def test_callers_are_counted_by_what_became_of_their_notifications(
    api: UsersApi, ada: Client, caller: CallingAgent
) -> None:
    registry, now = api.relay.registry, api.relay.clock()
    task = (await caller.send("hello"))["id"]

    def counts(**values: object) -> NotifiedCallers:
        pushed(api, task, **values)
        return registry.callers.notified()

    nobody = NotifiedCallers(0, 0)
    assert counts(tries=2, ended_at=None) == nobody
    assert counts(tries=3) == NotifiedCallers(0, 1)
    assert counts(tries=MOST_TRIES, ended_at=now) == NotifiedCallers(0, 1)
    assert counts(tries=0, sent="done") == NotifiedCallers(1, 0)
    assert counts(ended_at=now - timedelta(minutes=16)) == nobody
    assert counts(tries=MOST_TRIES) == nobody
    async with calling_agent(api, ada, push_hosts=[HOST]) as other:
        second = (await other.send("hello"))["id"]
        pushed(api, second, tries=4, ended_at=None)
        assert counts(tries=0, sent="done", ended_at=now) == NotifiedCallers(1, 1)
    series = notified_series(replace(nobody, undelivered=3))
    assert {dict(labels)["state"]: figure for (_, labels), figure in series.items()} == {
        "delivered": 0,
        "undelivered": 3,
    }
