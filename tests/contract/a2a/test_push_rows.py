"""Rows of notifications: changed addresses begin anew, and nobody's addresses hold those of others up."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from hermesops.store.calling_rows.pushes import MOST, OF_CALLER, OF_USER, DuePush, Push, TaskPushes
from tests.support.users.api import Client, UsersApi
from tests.support.users.calling import CallingAgent, calling_agent
from tests.support.users.notified import HOSTNAME

OLD, NEW = "https://old.example.com/", "https://new.example.com/"
TAKEN, PAUSE = timedelta(seconds=60), timedelta(seconds=80)


@pytest.fixture
def rows(api: UsersApi) -> TaskPushes:
    return api.calling_rows.pushes


async def task_of(caller: CallingAgent) -> str:
    return str((await caller.send("hello"))["id"])


def taken(rows: TaskPushes) -> DuePush:
    (due,) = rows.take_due(for_=TAKEN)
    return due


async def test_a_changed_address_is_notified_and_tried_as_a_new_one_once_its_pause_has_ended(
    api: UsersApi, caller: CallingAgent, rows: TaskPushes
) -> None:
    task = await task_of(caller)
    assert rows.put(Push(task, "p", OLD))
    rows.note(taken(rows), sent="asked-1", tries=6, pause=PAUSE, has_ended=True)
    assert rows.put(Push(task, "p", NEW))
    assert not rows.take_due(for_=TAKEN)  # a change tries no host more often
    assert rows.put(Push(task, "p", NEW))
    api.relay.clock.turn(PAUSE.total_seconds())
    push = taken(rows).push
    assert (push.url, push.sent, push.tries) == (NEW, "", 0)


async def test_a_changed_address_that_did_not_fail_is_looked_at_at_once(caller: CallingAgent, rows: TaskPushes) -> None:
    task = await task_of(caller)
    assert rows.put(Push(task, "p", OLD))
    rows.note(taken(rows), sent="done", tries=0, pause=PAUSE, has_ended=True)
    assert rows.put(Push(task, "p", NEW))
    assert (taken(rows).push.url, rows.list(task)[0].sent) == (NEW, "")


async def test_a_look_at_an_address_that_was_changed_meanwhile_records_nothing(
    caller: CallingAgent, rows: TaskPushes
) -> None:
    task = await task_of(caller)
    assert rows.put(Push(task, "p", OLD))
    under_way = taken(rows)
    assert rows.put(Push(task, "p", NEW))
    rows.note(under_way, sent="done", tries=0, pause=PAUSE, has_ended=True)
    assert taken(rows).push == Push(task, "p", NEW)


async def test_the_addresses_of_one_caller_and_of_one_user_leave_places_for_others(
    api: UsersApi, ada: Client, rows: TaskPushes
) -> None:
    async with AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(calling_agent(api, ada, push_hosts=[HOSTNAME]))
            for _ in range(OF_USER // OF_CALLER + 1)
        ]
        for caller in callers:
            task = await task_of(caller)
            assert all(rows.put(Push(task, f"p{number}", OLD)) for number in range(MOST))
    ids = [caller.id for caller in callers]

    def counts(due: Sequence[DuePush]) -> set[int]:
        return {sum(each.caller_id == id_ for each in due) for id_ in ids} - {0}

    assert not rows.take_due(for_=TAKEN, users={api.ada.user_id})
    beside = rows.take_due(for_=TAKEN, callers=set(ids[1:]), limit=100)
    assert {each.caller_id for each in beside} == {ids[0]}
    assert len(beside) == OF_CALLER
    due = rows.take_due(for_=TAKEN, limit=100)
    assert len(due) <= OF_USER
    assert counts(due) <= set(range(OF_CALLER + 1))
    api.relay.clock.turn(TAKEN.total_seconds())
    assert len(rows.take_due(for_=TAKEN, limit=7)) == 7


async def test_requests_at_once_give_a_task_no_more_addresses_than_one_after_the_other(
    caller: CallingAgent, rows: TaskPushes
) -> None:
    task = await task_of(caller)
    added = await asyncio.gather(
        *(asyncio.to_thread(rows.put, Push(task, f"p{number}", OLD)) for number in range(4 * MOST))
    )
    assert (sum(added), len(rows.list(task))) == (MOST, MOST)
