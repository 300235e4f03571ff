"""Repairs of machines of ours that no instance is on, and of a machine whose size somebody changed at JustAVPS."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.drift.repairs import Repair
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.model.ids import InstanceId
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.agents import drift as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

_DRIFT = "drift"
"""The page that names such machines."""


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


_ID = ActionValue("id", "Machine's id, where two have the name", "--id")

ACTIONS = (
    Action(
        About.MACHINE,
        "adopt",
        "Assign to its instance",
        ("fleet", "repair", "adopt"),
        AdoptWork(),
        (_ID, ActionValue("contested", "Even without a proof of its identity", "--contested", is_flag=True)),
    ),
    Action(
        About.MACHINE,
        "remove-orphan",
        "Destroy",
        ("fleet", "repair", "remove-orphan", "--yes"),
        RemoveOrphanWork(),
        (_ID, ActionValue("forget", "Even if it holds a user's state", "--forget", is_flag=True)),
        destroys=True,
    ),
    Action(
        About.INSTANCE,
        "accept-size",
        "Accept the machine's size",
        ("fleet", "repair", "accept-size"),
        AcceptSizeWork(),
    ),
)
