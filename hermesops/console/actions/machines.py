"""Repairs of machines of ours that no instance is on, and of a machine whose size somebody changed at JustAVPS."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.drift.repairs import Repair
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.model.access.console_operator import Role
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.agents import drift as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

_DRIFT = "drift"
"""The page that names such machines."""

_SEARCHED = 50
"""Newest audit entries of a subject among which the one of a request is looked for."""


@dataclass(frozen=True)
class AdoptWork:
    """The assignment of a machine to the instance that it reports."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The instance that the machine would be assigned to; the machine is asked."""
        instance_id = await container.orphan_repairs.preview_adoption(
            request.subject.name, request.value("id"), contested=request.is_on("contested")
        )
        shape = shapes.repair_preview(Repair.ADOPT, request.subject.name, instance_id=instance_id)
        return Preview("repair", shape)

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Assign it."""
        await connected.container.orphan_repairs.adopt(
            request.subject.name, request.value("id"), contested=request.is_on("contested"), reason=request.reason
        )
        return Begun(_DRIFT)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The page of drift, where the machine was assigned to an instance for the same reason."""
        name, instances = request.subject.name, await in_db_thread(connected.container.instances.list)
        owner = next((instance for instance in instances if instance.machine_name == name), None)
        if owner is None or not await in_db_thread(_is_noted, connected, instance_subject(owner.id), request.reason):
            return None
        return Begun(_DRIFT)


@dataclass(frozen=True)
class RemoveOrphanWork:
    """The destruction of a machine that no instance is on."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The machine that would be destroyed; it is asked whether it holds a user's state."""
        machine = await container.orphan_repairs.preview_removal(
            request.subject.name, request.value("id"), forget=request.is_on("forget")
        )
        shape = shapes.repair_preview(Repair.REMOVE_ORPHAN, machine.name, machine_id=machine.id)
        return Preview("repair", shape)

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Destroy it; its name was typed."""
        await connected.container.orphan_repairs.remove(
            request.subject.name,
            request.value("id"),
            forget=request.is_on("forget"),
            reason=request.reason,
            consent=lambda _machine: None,
        )
        return Begun(_DRIFT)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The page of drift, where the machine was destroyed for the same reason and is gone."""
        name = request.subject.name
        if not await in_db_thread(_is_noted, connected, f"machine/{name}", request.reason):
            return None
        is_there = await connected.container.orphan_repairs.is_there(name, request.value("id"))
        return None if is_there else Begun(_DRIFT)  # written down before it is done


@dataclass(frozen=True)
class AcceptSizeWork:
    """The acceptance of the size that a machine was given at JustAVPS."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The size that the machine has now."""
        instance = await in_db_thread(container.instances.get, InstanceId(request.subject.id))
        async with container.connect() as connected:
            size = await connected.drift.size_of(instance)
        shape = shapes.repair_preview(Repair.ACCEPT_SIZE, request.subject.name, server_type=size)
        return Preview("repair", shape)

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Record it as the ordered one."""
        instance = await in_db_thread(connected.container.instances.get, InstanceId(request.subject.id))
        await connected.drift.accept_size(instance, reason=request.reason)
        return Begun(request.subject.page)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The instance's page, where its size was accepted for the same reason."""
        subject = instance_subject(InstanceId(request.subject.id))
        is_done = await in_db_thread(_is_noted, connected, subject, request.reason)
        return Begun(request.subject.page) if is_done else None


def _is_noted(connected: "Connected", subject: str, reason: str) -> bool:
    """Whether the audit log has a change of a subject for a reason, among its newest entries."""
    entries = connected.container.audit.list(subject=subject, limit=_SEARCHED)
    return any(entry.why == reason for entry in entries)


_ID = ActionValue("id", "Machine ID, if several machines have this name", "--id")

ACTIONS = (
    Action(
        About.MACHINE,
        "adopt",
        "Assign to its instance",
        ("fleet", "repair", "adopt"),
        AdoptWork(),
        (
            _ID,
            ActionValue(
                "contested", "Assign even without a proof of the identity", "--contested", is_flag=True, is_served=False
            ),
        ),
        role=Role.ADMIN,
    ),
    Action(
        About.MACHINE,
        "remove-orphan",
        "Destroy the machine",
        ("fleet", "repair", "remove-orphan", "--yes"),
        RemoveOrphanWork(),
        (
            _ID,
            ActionValue(
                "forget", "Destroy even if the machine holds a user's state", "--forget", is_flag=True, is_served=False
            ),
        ),
        destroys=True,
        role=Role.ADMIN,
    ),
    Action(
        About.INSTANCE,
        "accept-size",
        "Accept the machine's size",
        ("fleet", "repair", "accept-size"),
        AcceptSizeWork(),
        role=Role.OPERATOR,
    ),
)
