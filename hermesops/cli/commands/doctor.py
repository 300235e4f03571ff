"""``hermesops doctor``: what this computer and this environment lack."""

from hermesops.cli import context
from hermesops.cli.console import say, table
from hermesops.cli.views import shapes
from hermesops.errors import RefusedError


def doctor() -> int:
    """Check programs, rights, disk space, keys, registry and the vendor's API; name what repairs each."""
    from hermesops.model.check import Verdict

    checks = context.run(context.compose().checks.doctor())
    table(
        "doctor", "checks", ("check", "verdict", "seen", "hint"), [shapes.check(check) for check in checks], "no checks"
    )
    failed = sum(check.verdict is Verdict.FAILED for check in checks)
    if failed:
        say(f"{failed} of {len(checks)} checks failed")
    return RefusedError.exit_code if failed else 0
