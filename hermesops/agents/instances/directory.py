"""Finds and lists instances, for whatever renders or serves them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.model.ids import user_id_of
from hermesops.model.unknown_name import unknown_name

if TYPE_CHECKING:
    from hermesops.model.fleet.instance import Instance, InstanceStatus
    from hermesops.model.ids import CellName, InstanceId
    from hermesops.model.plan import Plan
    from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Instances:
    """Instances of one environment, as the registry has them."""

    registry: "Registry"

    def find(self, text: str) -> "Instance":
        """The instance with that user alias, user id or instance id: a living one first, then the newest.

        Raises:
            UsageError: There is none.
        """
        return self.registry.instances.find(text)

    def get(self, instance_id: "InstanceId") -> "Instance":
        """One instance, terminated or not.

        Raises:
            UsageError: There is none with that id, or it is no UUID, as in an address that somebody typed.
        """
        if user_id_of(instance_id) is None:
            raise unknown_name("user", instance_id)
        return self.registry.instances.get(instance_id)

    def list(
        self,
        *,
        plan: "Plan | None" = None,
        status: "InstanceStatus | None" = None,
        cell: "CellName | None" = None,
        terminated: bool = False,
    ) -> "tuple[Instance, ...]":
        """Instances, oldest first; terminated ones only with ``terminated`` or with that ``status``."""
        return self.registry.instances.list(plan=plan, status=status, cell=cell, terminated=terminated)
