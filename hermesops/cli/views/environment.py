"""Output about environments, their settings, and the checks of their requirements."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pydantic import SecretStr

from hermesops.cli.console import advice, say, table
from hermesops.errors import RefusedError
from hermesops.model.check import Check, Verdict
from hermesops.views import shapes

if TYPE_CHECKING:
    from hermesops.automation.doctor.environments import EnvironmentState
    from hermesops.settings.changing import SettingChange
    from hermesops.settings.environment import Environment


_COLUMNS = ("check", "verdict", "seen")


def setting(env: "Environment", key: str) -> dict[str, object]:
    """A setting with its source; a secret is masked."""
    from hermesops.settings.fields import FIELDS, value_of

    return {
        "key": key,
        "value": _shown(key, value_of(env.settings, key)),
        "source": env.sources[key],
        "description": FIELDS[key].description,
    }


def _shown(key: str, value: object) -> str | None:
    """The value of a setting as an operator types it; a secret is masked."""
    from hermesops.settings.fields import SECRET_KEYS

    if isinstance(value, SecretStr) or (key in SECRET_KEYS and value is not None):
        return "(set, hidden)"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, AbstractSet | list):
        return ",".join(sorted(map(str, value)))
    return str(value) if value is not None else None


def changed_setting(change: "SettingChange") -> dict[str, object]:
    """A changed setting."""
    return {
        "key": change.key,
        "before": _shown(change.key, change.before),
        "after": _shown(change.key, change.after),
        "file": str(change.file),
        "written": change.is_written,
        "wins": change.variable or None,
        "effect": change.effect,
    }


def changed_setting_lines(change: "SettingChange") -> list[str]:
    """The same for people."""
    row = changed_setting(change)
    before, after = (str(row[name] or "(empty)") for name in ("before", "after"))
    if not change.is_written:
        return [f"nothing to do: {change.key} is {after} in {change.file}"]
    wins = [f"variable {change.variable} wins over the file in this shell"] if change.variable else []
    return [f"{change.key}: {before} -> {after} ({change.file})", *wins, advice(change.effect)]


def environment(one: "EnvironmentState") -> dict[str, object]:
    """An environment."""
    return {
        "name": one.name,
        "chosen": one.is_chosen,
        "vendor": one.vendor or None,
        "registry": one.registry_kind or None,
        "folder": str(one.folder),
        "problem": one.problem or None,
    }


def chosen(env: "Environment", *, because: str) -> dict[str, object]:
    """The environment of this command, and what its settings change."""
    return {
        "name": env.name,
        "because": because,
        "production": env.is_production,
        "folder": str(env.folder),
        "secrets_home": env.settings.secrets.home or str(env.keys),
        "settings": [setting(env, key) for key, source in env.sources.items() if source != "default"],
    }


def report_checks(kind: str, checks: Sequence[Check], *, empty: str = "") -> int:
    """Print checks as JSON of this kind or as a table; returns the exit code: 3 when one failed, else 0."""
    table(kind, "checks", _COLUMNS, [shapes.check(one) for one in checks], empty, below="hint")
    failed = sum(one.verdict is Verdict.FAILED for one in checks)
    if failed:
        say(f"{failed} of {len(checks)} checks failed")
    return RefusedError.exit_code if failed else 0
