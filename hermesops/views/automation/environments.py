"""Shapes of environments and their settings; a secret is masked."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pydantic import SecretStr

if TYPE_CHECKING:
    from hermesops.automation.doctor.environments import EnvironmentState
    from hermesops.settings.changing import SettingChange
    from hermesops.settings.environment import Environment


def setting(env: "Environment", key: str) -> dict[str, object]:
    """A setting with its source; a secret is masked."""
    from hermesops.settings.fields import FIELDS, value_of

    return {
        "key": key,
        "value": _shown(key, value_of(env.settings, key)),
        "source": env.sources[key],
        "description": FIELDS[key].description,
    }


def changed_setting(change: "SettingChange") -> dict[str, object]:
    """The JSON object of a setting that ``settings set`` changed."""
    return {
        "key": change.key,
        "before": _shown(change.key, change.before),
        "after": _shown(change.key, change.after),
        "file": str(change.file),
        "written": change.is_written,
        "wins": change.variable or None,
        "effect": change.effect,
    }


def environment(state: "EnvironmentState") -> dict[str, object]:
    """The JSON object of an environment in a list."""
    return {
        "name": state.name,
        "chosen": state.is_chosen,
        "vendor": state.vendor or None,
        "registry": state.registry_kind or None,
        "folder": str(state.folder),
        "problem": state.problem or None,
    }


def chosen(env: "Environment", *, because: str) -> dict[str, object]:
    """The JSON object of the chosen environment, with the settings that differ from their defaults."""
    return {
        "name": env.name,
        "because": because,
        "production": env.is_production,
        "folder": str(env.folder),
        "secrets_home": env.settings.secrets.home or str(env.keys),
        "settings": [setting(env, key) for key, source in env.sources.items() if source != "default"],
    }


def _shown(key: str, value: object) -> str | None:
    """The value of a setting as an operator types it; a secret is masked."""
    from hermesops.settings.fields import SECRET_KEYS

    if isinstance(value, SecretStr) or (key in SECRET_KEYS and value is not None):
        return "(set, hidden)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, AbstractSet | list):
        return ",".join(sorted(map(str, value)))
    return str(value) if value is not None else None
