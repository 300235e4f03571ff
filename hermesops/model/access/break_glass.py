"""An order to open a machine's sshd in an emergency, from its making to its end. Pure."""

from dataclasses import dataclass
from datetime import datetime

from hermesops.model.ids import InstanceId, MachineId


@dataclass(frozen=True)
class BreakGlass:
    """A break-glass order and its state.

    Attributes:
        id: 32 hexadecimal digits.
        text: What was signed: ``node.orders.documents.BreakGlassOrder.to_json()``.
        signature: Of the text, armored.
        source: The network that may connect.
        host_key: By which the machine was known when the order was made, as ``ssh-ed25519 AAAA…``.
        who: Ordered it.
        opened_at: When the machine said that sshd was open; ``None`` before.
        withdrawn_at: When an operator ended it early.
        closed_at: When the machine said that sshd was closed again, or that it refuses the order.
        outcome: Why it was refused or closed.
        address: Of the machine, which sshd listened at.
    """

    id: str
    instance_id: InstanceId
    machine_id: MachineId
    text: str
    signature: str
    source: str
    host_key: str
    who: str
    why: str
    created_at: datetime
    expires_at: datetime
    opened_at: datetime | None = None
    withdrawn_at: datetime | None = None
    closed_at: datetime | None = None
    outcome: str = ""
    address: str = ""

    def is_open(self, now: datetime) -> bool:
        """Whether an operator may log in by it, as far as the machine has said."""
        return self.opened_at is not None and self.closed_at is None and now < self.expires_at

    def state(self, now: datetime) -> str:
        """One word for people: ordered, open, refused, closed or expired."""
        if self.closed_at is not None or self.withdrawn_at is not None:
            return "refused" if self.opened_at is None and self.withdrawn_at is None else "closed"
        if now >= self.expires_at:
            return "expired"
        return "ordered" if self.opened_at is None else "open"
