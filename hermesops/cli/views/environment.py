"""Output about environments, their settings, and the checks of their requirements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.cli.console import advice, say, table
from hermesops.errors import RefusedError
from hermesops.model.check import Check, Verdict
from hermesops.views.automation import checks as check_shapes
from hermesops.views.automation.environments import changed_setting

if TYPE_CHECKING:
    from hermesops.settings.changing import SettingChange


_COLUMNS = ("check", "verdict", "seen")


def changed_setting_lines(change: "SettingChange") -> list[str]:
    """Render a changed setting as lines: its old and new value, and its effect."""
    row = changed_setting(change)
    before, after = (str(row[name] or "(empty)") for name in ("before", "after"))
    if not change.is_written:
        return [f"nothing to do: {change.key} is {after} in {change.file}"]
    wins = [f"variable {change.variable} overrides the file in this shell"] if change.variable else []
    return [f"{change.key}: {before} -> {after} ({change.file})", *wins, advice(change.effect)]


def report_checks(kind: str, checks: Sequence[Check], *, empty: str = "") -> int:
    """Print checks as JSON of this kind or as a table; returns the exit code: 3 when one failed, else 0."""
    table(kind, "checks", _COLUMNS, [check_shapes.check(check) for check in checks], empty, below="hint")
    failed = sum(check.verdict is Verdict.FAILED for check in checks)
    if failed:
        say(f"{failed} of {len(checks)} checks failed")
    return RefusedError.exit_code if failed else 0
