"""Tokens in use as the registry has them; no connection is needed to list them."""

from dataclasses import dataclass

from hermesops.model.access.token import KeptToken
from hermesops.model.billing.route import PresentToken
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import MachineId, MachineName
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class TokenDirectory:
    """Finds tokens for the vendor's proxy and for the model router, never their values."""

    registry: Registry

    def proxy_tokens(self, instance: Instance | None = None) -> list[tuple[Instance | None, KeptToken]]:
        """The tokens that open the machine of one instance, or all machines, each with its instance."""
        owners = {owner.machine_id: owner for owner in self.registry.instances.list()}
        tokens = self.registry.proxy_tokens.kept()
        return [
            (owners.get(token.machine_id), token)
            for token in tokens
            if not instance or token.machine_id == instance.machine_id
        ]

    def model_tokens(self, instance: Instance | None = None) -> list[tuple[Instance, PresentToken]]:
        """The present token of one instance for the model router, or of each that is not terminated."""
        if instance:
            return [(instance, self.registry.model_tokens.get(instance.id))]
        tokens = self.registry.model_tokens.all()
        return [(each, tokens[each.id]) for each in self.registry.instances.list() if each.id in tokens]

    def machine_names(self) -> dict[MachineId, MachineName]:
        """Names of the machines of all instances, and of unassigned ones, by their ids."""
        machines: list[Instance | UnassignedMachine] = [
            *self.registry.instances.list(),
            *self.registry.unassigned.list(),
        ]
        return {row.machine_id: _name_of(row) for row in machines if row.machine_id}


def _name_of(row: Instance | UnassignedMachine) -> MachineName:
    return row.machine_name if isinstance(row, Instance) else row.name
