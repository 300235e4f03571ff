"""Opens operations of instances, under the instance's lease and past the eligibility check."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from hermesops.agents.instances import refusals
from hermesops.agents.instances.requests.eligibility import Requirement
from hermesops.base import waiting
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.model.ids import instance_subject
from hermesops.model.operation import LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.agents import ConfigureIntent, RelocateIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent
from hermesops.store.registry import Registry

DoneT = TypeVar("DoneT")
WantedT = TypeVar("WantedT", bound=InstanceIntent)

_EVERY_S = 0.5
"""Seconds between two attempts to open an operation."""

_held_elsewhere: ContextVar[LeaseHeldError | None] = ContextVar("_held_elsewhere", default=None)
"""Why a request holds no lease: another process works on the operation that it asks for, so that it opens none."""


@dataclass(frozen=True)
class OperationOpener:
    """Opens operations of instances under their lease; every write of a request goes through it."""

    registry: Registry
    hold_lease: Callable[[str], AbstractAsyncContextManager[object]]

    @asynccontextmanager
    async def eligible(
        self,
        user_text: str,
        requirement: Requirement,
    ) -> AsyncGenerator[Instance, None]:
        """Hold the lease of an instance that may have such an operation; a refusal changes nothing.

        Where another process has the same kind of operation under way, nothing is held, and ``open`` finds that one.

        Raises:
            LeaseHeldError: Another process works on the instance, and not on such an operation.
            RefusedError: It may not have such an operation now.
        """
        kind, may_follow = requirement.kind, not requirement.cancels
        async with self._lease_unless_begun(user_text, kind, may_follow=may_follow):
            instance = self.registry.instances.find(user_text)
            requirement.refuse(instance, self.unfinished(instance))
            yield instance

    @asynccontextmanager
    async def _lease_unless_begun(
        self, user_text: str, kind: type[InstanceIntent], *, may_follow: bool
    ) -> AsyncGenerator[None, None]:
        """Hold the instance's lease; where a process holds it for such an operation, ``open`` only finds that one."""
        instance = self.registry.instances.find(user_text)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.hold_lease(instance_subject(instance.id)))
            except LeaseHeldError as error:
                is_begun = self.unfinished(instance, kind.kind, *kind.continues)
                if not (may_follow and kind.repeatable and is_begun):
                    raise
                before = _held_elsewhere.set(error)
                stack.callback(_held_elsewhere.reset, before)
            yield

    def unfinished(self, instance: Instance, *kinds: OperationKind) -> list[Operation]:
        """Its operations that have not ended, of these kinds or of all."""
        operations = self.registry.operations.list(unfinished=True, instance_id=instance.id)
        return [operation for operation in operations if not kinds or operation.kind in kinds]

    def open(
        self, instance: Instance, requested: WantedT, is_the_same: Callable[[WantedT], bool] | None = None
    ) -> Operation:
        """Write an operation's row, or find the unfinished one of that kind; within ``eligible``.

        Args:
            is_the_same: Whether an unfinished one has the same intent; ``None`` accepts any of that kind.

        Raises:
            RefusedError: An unfinished one of that kind has another intent.
            LeaseHeldError: Another process worked on one, which has ended meanwhile.
        """
        begun = self.unfinished(instance, requested.kind)
        for operation in begun if is_the_same else ():
            if is_the_same and not is_the_same(type(requested).of(operation)):
                raise refusals.operation_unfinished(instance, operation)
        if error := _held_elsewhere.get():
            if not begun:
                raise error
            return begun[0]
        return begun[0] if begun else self.write(instance, requested)

    def write(self, instance: Instance, requested: InstanceIntent) -> Operation:
        """Write an operation's row, or return the unfinished one of that kind."""
        subject, intent = instance_subject(instance.id), requested.to_json()
        return self.registry.operations.open(requested.kind, subject, intent=intent, instance_id=instance.id)

    def change_settings(self, instance: Instance, settings: InstanceSettings, intent: ConfigureIntent) -> Operation:
        """Write new settings and the operation that brings them to the machine, in one transaction."""
        subject = instance_subject(instance.id)
        return self.registry.settings_changes.change(
            instance.id, settings, subject=subject, intent=intent.to_json(), why=intent.reason
        )

    def cancel(self, operation: Operation, reason: str) -> None:
        """Close an operation that the request cancels."""
        self.registry.operations.finish(operation.id, OperationStatus.ABANDONED, f"cancelled: {reason}")

    def mark_for_deletion(self, instance: Instance, why: str) -> None:
        """Let every run of the cell destroy the instance's machine from here on."""
        self.registry.instances.mark_for_deletion(instance.id, why=why)

    def retire(self, row: UnassignedMachine, why: str) -> None:
        """Mark an ordered machine for deletion that the request has no use for."""
        self.registry.unassigned.retire(row.name, why=why)

    def retire_leftovers(self, instance: Instance, intent: RelocateIntent) -> None:
        """Retire machines that an abandoned relocation ordered, and that are of another size or region."""
        for row in self.registry.unassigned.list(role=MachineRole.REPLACEMENT, instance_id=instance.id):
            if not intent.fits(row):
                self.retire(row, why="its relocation was given up")

    async def open_eligible(self, instance: Instance, intent: InstanceIntent) -> Operation:
        """Open an operation without further checks, or find the unfinished one.

        Raises:
            LeaseHeldError: Another process works on the instance.
            RefusedError: It may not have such an operation now.
        """
        async with self.eligible(instance.id, Requirement(type(intent))) as eligible:
            return self.open(eligible, intent)


async def open_when_free(
    request: Callable[[], Awaitable[DoneT]], *, wait_s: float, report: Callable[[str], None]
) -> DoneT:
    """Open an operation by a request, or do it, once no other process works on the instance.

    Args:
        wait_s: Seconds to wait for the other process.
        report: Takes a line for each other process that is waited for.

    Raises:
        LeaseHeldError: A process still works on it after that time.
    """
    deadline, reported = time.monotonic() + wait_s, ""
    while True:
        try:
            return await request()
        except LeaseHeldError as held:
            if time.monotonic() >= deadline:
                raise
            if held.message != reported:
                reported = held.message
                report(f"waits: {reported}")
        await waiting.pause(_EVERY_S)
