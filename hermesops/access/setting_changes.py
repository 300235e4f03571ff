"""Records changes of settings.toml in the audit log of the environment's registry."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import HermesError
from hermesops.settings.changing import SettingChange
from hermesops.settings.fields import SECRET_KEYS

_HIDDEN = "(hidden)"


@dataclass(frozen=True)
class SettingAudit:
    """The audit log, for changes of settings.

    Attributes:
        place: Of the registry as it was before the change: a change of ``registry.url`` is recorded where it was.
    """

    place: RegistryPlace

    def record(self, change: SettingChange, *, why: str) -> str:
        """Write an entry: who changed which key, and its value before and after unless it is a secret.

        A setting may repair the registry, so that a registry that cannot be reached refuses no change.

        Returns:
            Why there is no entry; empty where there is one, or nothing was written.
        """
        if not change.is_written:
            return ""
        if not self.place.is_there():
            return "there is no registry yet"
        before, after = _entry(change.key, change.before), _entry(change.key, change.after)
        try:
            audit = self.place.open().audit
            audit.append("setting_changed", f"setting/{change.key}", before=before, after=after, why=why)
        except HermesError as error:
            return error.message
        return ""


def _entry(key: str, value: object) -> dict[str, object]:
    """The value of a setting as an audit entry has it."""
    if isinstance(value, SecretStr) or (key in SECRET_KEYS and value is not None):
        return {"value": _HIDDEN}
    match value:
        case None | bool() | int() | float():
            return {"value": value}
        case Mapping():
            return {"value": {str(name): str(inner) for name, inner in value.items()}}
        case frozenset() | set() | list() | tuple():
            return {"value": sorted(map(str, value))}
        case _:
            return {"value": str(value)}
