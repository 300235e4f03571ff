"""A table of checks, and the exit code that says whether all are well."""

from collections.abc import Sequence

from hermesops.cli.console import say, table
from hermesops.cli.views import shapes
from hermesops.errors import RefusedError
from hermesops.model.check import Check, Verdict


def report(kind: str, checks: Sequence[Check], *, empty: str = "") -> int:
    """Print checks as JSON of this kind or as a table; returns the exit code: 3 when one failed, else 0."""
    rows = [shapes.check(one) for one in checks]
    table(kind, "checks", ("check", "verdict", "seen", "hint"), rows, empty)
    failed = sum(one.verdict is Verdict.FAILED for one in checks)
    if failed:
        say(f"{failed} of {len(checks)} checks failed")
    return RefusedError.exit_code if failed else 0
