"""Data about an instance that its machine and the vendor's list hold without the registry."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan


@dataclass(frozen=True)
class Recovered:
    """One instance as its machine describes it.

    Attributes:
        user_alias: Empty where it is unknown: machines do not know it.
        api_server_key: The gateway continues to use it.
        model_token_generation: Of the token that the machine holds.
        model_token_expires_at: The same; ``None`` where it holds no genuine one.
        created_at: When its machine was made, if nothing better is known.
        doubt: Why its machine may not be trusted; empty when it is verified.
    """

    id: InstanceId
    user_id: UserId
    plan: Plan
    status: InstanceStatus
    cell: CellName
    epoch: int
    machine_id: MachineId
    machine_name: MachineName
    server_type: str
    region: str
    image_id: ImageId | None
    created_at: datetime
    settings: InstanceSettings = field(repr=False)
    api_server_key: str = field(repr=False)
    model_token_generation: int
    model_token_expires_at: datetime | None = None
    user_alias: str = ""
    doubt: str = ""

    def called(self, alias: str) -> "Recovered":
        """A copy with its user's alias."""
        return replace(self, user_alias=alias)
