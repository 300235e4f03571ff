"""Copies agents' settings for the users' API, which has no key to the settings themselves."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.errors import UsageError
from hermesops.store.registry import Registry
from hermesops.store.user_rows.settings_copies import SettingsCopies


@dataclass(frozen=True)
class SettingsCopying:
    """Copies of settings, kept up to date by workers.

    Attributes:
        rows: Opens the key that seals copies, so that it is asked where there is something to seal.
    """

    registry: Registry
    rows: Callable[[], SettingsCopies]

    def due(self) -> list[str]:
        """Agents whose settings were changed since they were copied."""
        return [f"settings of {instance_id}" for instance_id in self.registry.instance_secrets.uncopied()]

    def run(self) -> int:
        """Copy settings that were changed; returns how many. May be repeated, and killed anywhere."""
        count = 0
        for instance_id in self.registry.instance_secrets.uncopied():
            try:
                settings, revision = self.registry.instance_secrets.settings_and_revision(instance_id)
            except UsageError:  # it was purged meanwhile
                continue
            self.rows().put(instance_id, settings, revision)
            count += 1
        return count
