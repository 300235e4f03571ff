"""Takes requests without opening an operation: each check runs, nothing is written."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import OperationId, instance_subject
from hermesops.model.operation import Operation, OperationStatus
from hermesops.store.operations.kinds.agents import ConfigureIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent
from hermesops.store.operations.leases.under_way import refuse_held
from hermesops.store.registry import Registry

DRY_RUN = OperationId("dry-run")
"""Id of an operation that is in no registry."""


@dataclass(frozen=True)
class DryRunOpener(OperationOpener):
    """An opener that writes nothing; ``open`` returns the operation that it would have written."""

    def write(self, instance: Instance, requested: InstanceIntent) -> Operation:
        """Return the operation's row without writing it."""
        return unwritten(self.registry, instance, requested)

    def change_settings(
        self,
        instance: Instance,
        settings: InstanceSettings,  # noqa: ARG002 - they are written nowhere
        intent: ConfigureIntent,
    ) -> Operation:
        """Return the operation's row without writing it or the settings."""
        return unwritten(self.registry, instance, intent)

    def cancel(self, operation: Operation, reason: str) -> None:
        """Do nothing: a preview cancels no operation."""

    def mark_for_deletion(self, instance: Instance, why: str) -> None:
        """Do nothing: a preview marks no machine for deletion."""

    def retire(self, row: UnassignedMachine, why: str) -> None:
        """Do nothing: a preview retires no unassigned machine."""


def unwritten(registry: Registry, instance: Instance, intent: InstanceIntent) -> Operation:
    """An operation as it would be opened now."""
    now, kind = registry.now(), intent.kind
    row = (kind, instance_subject(instance.id), instance.id, intent.to_json(), OperationStatus.PENDING)
    return Operation(DRY_RUN, *row, step="", outcome="", created_at=now, updated_at=now)


@asynccontextmanager
async def unless_held(registry: Registry, subject: str) -> AsyncGenerator[None, None]:
    """Check that the lease of a subject could be taken; it is not.

    Raises:
        LeaseHeldError: Another process holds it; with the message that a request gets.
    """
    refuse_held(registry, next((lease for lease in registry.leases.list() if lease.subject == subject), None))
    yield
