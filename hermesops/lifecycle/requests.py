"""Takes in what operators ask of instances that exist: writes the row that says so, and leaves the doing to others."""

from collections.abc import Mapping
from typing import Protocol

from hermesops.errors import UnavailableError
from hermesops.justavps.wire import Machine
from hermesops.lifecycle.admission import subject_of
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance
from hermesops.model.operation import Operation, OperationKind


class Rows(Protocol):
    """The registry, as far as requests write it."""

    def find_instance(self, text: str) -> Instance:
        """The instance meant by an alias or id."""

    def give_up_machine(self, instance_id: InstanceId, *, why: str = "") -> None:
        """Name its machine as one that may be destroyed."""

    def open_operation(
        self,
        kind: OperationKind,
        subject: str,
        *,
        intent: Mapping[str, object] | None = None,
        instance_id: InstanceId | None = None,
    ) -> Operation:
        """Write the intent, or find the unfinished one."""


class World(Protocol):
    """What has to be looked at first."""

    async def machine(self, instance: Instance) -> Machine | None:
        """The instance's machine."""


class Gateways(Protocol):
    """The gateways' units."""

    async def invocation(self, machine_id: MachineId) -> str:
        """The id of a gateway's present start."""


class Requests:
    """Turns requests into rows.

    Args:
        rows: The registry.
        world: Machines.
        gateways: Their gateways' units.
    """

    def __init__(self, rows: Rows, world: World, gateways: Gateways) -> None:
        self._rows = rows
        self._world = world
        self._gateways = gateways

    def terminate(self, user_text: str, *, reason: str) -> Operation:
        """Record that an instance shall end; from here on every run of its cell may destroy its machine."""
        instance = self._rows.find_instance(user_text)
        operation = self._rows.open_operation(
            OperationKind.TERMINATE,
            subject_of(instance.id),
            intent={"user": user_text, "machine_name": instance.machine_name, "reason": reason},
            instance_id=instance.id,
        )
        self._rows.give_up_machine(instance.id, why=reason or f"terminate {operation.id}")
        return operation

    async def restart(self, user_text: str) -> Operation:
        """Record that a gateway shall be started anew, with the start it is in now.

        Raises:
            UnavailableError: Its machine is not there or does not answer.
        """
        instance = self._rows.find_instance(user_text)
        machine = await self._world.machine(instance)
        if machine is None:
            raise UnavailableError(
                f"JustAVPS lists no machine {instance.machine_name}", hint=f"hermesops provision {user_text}"
            )
        return self._rows.open_operation(
            OperationKind.RESTART,
            subject_of(instance.id),
            intent={"user": user_text, "before": await self._gateways.invocation(MachineId(machine.id))},
            instance_id=instance.id,
        )
