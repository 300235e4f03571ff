"""An instance as it is observed: its row, its machine, the node on it, the gateway behind the proxy.

Plain data: ``decide`` stays pure, and a test can state any situation.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps.wire import Machine, MachineStatus


@dataclass(frozen=True)
class MachineState:
    """A machine as the vendor lists it.

    Attributes:
        address: Its IP address; ``None`` where the vendor says none.
        price_monthly: US dollars a month; ``None`` where the vendor does not say.
    """

    id: MachineId
    status: MachineStatus
    server_type: str = ""
    region: str = ""
    address: str | None = None
    price_monthly: Decimal | None = None

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """The state of a machine in the vendor's answer."""
        price = machine.price_monthly
        return cls(
            MachineId(machine.id),
            machine.status,
            machine.server_type,
            machine.region,
            machine.ip,
            None if price is None else Decimal(str(price)),
        )

    @property
    def is_up(self) -> bool:
        """Whether hermes-node on it can be asked."""
        return self.status is MachineStatus.READY


@dataclass(frozen=True)
class Observation:
    """Everything known about one instance at one moment.

    Attributes:
        machine: ``None`` when the vendor lists none of that name.
        node: ``None`` when the toolbox or the node did not answer.
        gateway: ``None`` when there was no reason to ask.
        is_backed_up: Whether there is a backup of it; asked for only where the vendor lists no machine.
    """

    instance: Instance
    machine: MachineState | None
    node: NodeState | None = None
    gateway: GatewayHealth | None = None
    is_backed_up: bool = False

    @property
    def existing_machine(self) -> MachineState | None:
        """The machine; ``None`` when the vendor lists none, or says that it was deleted."""
        return None if self.machine is None or self.machine.status is MachineStatus.DELETED else self.machine

    @property
    def own_node(self) -> NodeState | None:
        """hermes-node's report of this instance's machine; ``None`` if it is silent or another instance's."""
        return self.node if self.node and self.node.instance_id == self.instance.id else None
