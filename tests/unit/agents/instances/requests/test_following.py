"""A repeated request finds the operation that another process has under way, and writes nothing."""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.requests.eligibility import RESUME, Requirement
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.errors import RefusedError
from hermesops.model.ids import OperationId
from hermesops.model.operation import LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.agents import (
    ConfigureIntent,
    Keep,
    RestartIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import BackupIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

AT = datetime(2026, 1, 1, tzinfo=UTC)
SUSPEND = SuspendIntent(user="ada", reason="holiday", keep=Keep.STOPPED)


def begun(intent: InstanceIntent) -> Operation:
    running = OperationStatus.RUNNING
    return Operation(OperationId("begun"), intent.kind, "s", ADA.id, intent.to_json(), running, "", "", AT, AT)


def opener(*rows: Operation, is_held: bool = True) -> OperationOpener:
    """An opener beside another process, which holds the lease for these operations."""

    def hold(_subject: str) -> AbstractAsyncContextManager[object]:
        if is_held:
            raise LeaseHeldError("ada is being worked on")
        return nullcontext()

    def write(*_: object, **__: object) -> Operation:
        assert not is_held, "written without the lease"
        return Operation(OperationId("new"), SUSPEND.kind, "s", ADA.id, {}, OperationStatus.PENDING, "", "", AT, AT)

    listed: Any = part(list=lambda **_: rows, open=write)
    registry: Any = part(instances=part(find=lambda _text: ADA), operations=listed)
    return OperationOpener(registry, hold)


async def asked(operation_opener: OperationOpener, wanted: InstanceIntent, *, undo: bool = False) -> str:
    async with operation_opener.eligible(
        "ada", Requirement(type(wanted), frozenset({wanted.kind} if undo else ()))
    ) as instance:
        is_the_same = (lambda begun: begun.keep is wanted.keep) if isinstance(wanted, SuspendIntent) else None
        return operation_opener.open(instance, wanted, is_the_same).id


async def test_the_same_request_finds_what_another_process_does() -> None:
    same = (
        SUSPEND,
        RestartIntent(user="ada", before="x"),
        BackupIntent(user="ada", why="manual"),
        TerminateIntent(user="ada", machine_name=ADA.machine_name, reason="r", keeps_backup=True),
    )
    for intent in same:
        assert await asked(opener(begun(intent)), intent) == "begun", intent.kind
    # Resuming goes on with a move that starts the agent on another machine.
    moving = replace(begun(SUSPEND), kind=OperationKind.RELOCATE)
    async with opener(moving).eligible("ada", RESUME) as instance:
        assert instance is ADA
    # What was found there is no matter of the request after it.
    assert await asked(opener(is_held=False), SUSPEND) == "new"


async def test_what_another_process_does_otherwise_is_not_followed() -> None:
    removed = SuspendIntent(user="ada", reason="holiday", keep=Keep.REMOVED)
    with pytest.raises(RefusedError, match="has not ended"):
        await asked(opener(begun(removed)), SUSPEND)
    settings = ConfigureIntent(user="ada", reason="r", changed=(), settings={})
    others = {
        "another kind": (begun(BackupIntent(user="ada", why="daily")), SUSPEND, False),
        "no operation": (None, SUSPEND, False),
        "one that this cancels": (begun(SUSPEND), SUSPEND, True),
        "a request that itself writes": (begun(settings), settings, False),
    }
    for name, (row, wanted, undo) in others.items():
        with pytest.raises(LeaseHeldError, match="is being worked on"):
            pytest.fail(f"{name}: {await asked(opener(*([row] if row else [])), wanted, undo=undo)}")


async def test_what_ended_meanwhile_is_not_begun_again_without_the_lease() -> None:
    rows = iter([[begun(SUSPEND)], [begun(SUSPEND)], []])
    operation_opener = opener()
    listed: Any = operation_opener.registry.operations
    listed.list = lambda **_: next(rows)
    with pytest.raises(LeaseHeldError, match="is being worked on"):
        await asked(operation_opener, SUSPEND)
