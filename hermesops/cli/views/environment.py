"""Output about environments, their settings, and the checks of their requirements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from hermesops.cli.console import say, table
from hermesops.cli.views import shapes
from hermesops.errors import RefusedError
from hermesops.model.check import Check, Verdict

if TYPE_CHECKING:
    from hermesops.automation.doctor.environments import EnvironmentState
    from hermesops.settings.environment import Environment


_COLUMNS = ("check", "verdict", "seen")


def setting(env: "Environment", key: str) -> dict[str, object]:
    """A setting with its source; a secret is masked."""
    from hermesops.settings.fields import FIELDS, value_of

    value = value_of(env.settings, key)
    shown: object = "(set, hidden)" if isinstance(value, SecretStr) else value
    if isinstance(shown, dict):
        shown = ",".join(f"{name}={text}" for name, text in shown.items())
    return {
        "key": key,
        "value": str(shown) if shown is not None else None,
        "source": env.sources[key],
        "description": FIELDS[key].description,
    }


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
