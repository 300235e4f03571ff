"""Reads instances' settings without the secrets in them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.model.access.masking import masked

if TYPE_CHECKING:
    from hermesops.model.fleet.instance import Instance
    from hermesops.store.registry import Registry


@dataclass(frozen=True)
class MaskedSettings:
    """Settings of one environment's instances, secrets masked."""

    registry: "Registry"

    def of(self, instance: "Instance") -> dict[str, object]:
        """An instance's settings as a document."""
        return masked(self.registry.instance_secrets.settings(instance.id))
