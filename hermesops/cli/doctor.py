"""``hermesops doctor``: what this computer and this environment lack."""

from hermesops.cli import context
from hermesops.cli.console import Json, say, table
from hermesops.errors import RefusedError


def doctor(json: Json = False) -> int:  # noqa: ARG001 - json acts in its callback
    """Check programs, rights, room, keys, registry and the vendor's API; say what mends each."""
    from hermesops.model.check import Verdict

    checks = context.run(context.compose().doctor())
    rows: list[dict[str, object]] = [
        {"check": check.name, "verdict": check.verdict.value, "seen": check.seen, "hint": check.hint or None}
        for check in checks
    ]
    table("doctor", "checks", ("check", "verdict", "seen", "hint"), rows, "no checks")
    failed = sum(check.verdict is Verdict.FAILED for check in checks)
    if failed:
        say(f"{failed} of {len(checks)} checks failed")
    return RefusedError.exit_code if failed else 0
