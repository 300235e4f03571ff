"""Shapes of checks: of machines, environments and files."""

from typing import TYPE_CHECKING

from hermesops.errors import HermesError, Hint, RefusedError

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.machines.verify.verification import Verification
    from hermesops.model.check import Check

_NAMED = 3
"""Failed checks that are named in the table; JSON has all."""


def check(verified: "Check") -> dict[str, object]:
    """A check; with a hint only where something is to be done."""
    hint = verified.hint if verified.verdict.value != "ok" else ""
    return {"check": verified.name, "verdict": verified.verdict.value, "seen": verified.seen, "hint": hint or None}


def verification(outcome: "Outcome[Verification]") -> dict[str, object]:
    """The checks of one machine, by their number, with the names of those that do not hold."""
    user, verified = outcome.instance.title, outcome.result
    shape: dict[str, object] = {"user": user, "instance_id": outcome.instance.id, "verdict": verdict(outcome)}
    if isinstance(verified, HermesError):
        return {**shape, "ok": None, "failed": verified.message, "hint": verified.hint or None, "checks": []}
    checks = verified.for_user(user)
    broken = [result for result in checks if not result.verdict.holds]
    more = f" +{len(broken) - _NAMED}" if len(broken) > _NAMED else ""
    hint = Hint(("instance", "verify", user, "--failed")) if broken else None
    return {
        **shape,
        "ok": f"{len(checks) - len(broken)} of {len(checks)}",
        "failed": ", ".join(result.name for result in broken[:_NAMED]) + more,
        "hint": hint,
        "checks": [check(result) for result in checks],
    }


def verdict(outcome: "Outcome[Verification]") -> str:
    """``ok``, ``failed``, or ``unknown`` where the machine could not be checked."""
    verified = outcome.result
    if isinstance(verified, HermesError):
        return "unknown"
    verdicts = {result.verdict.value for result in verified.checks if not result.verdict.holds}
    return "ok" if verified.is_ok else "unknown" if verdicts == {"unknown"} and not verified.findings else "failed"


def exit_code(outcome: "Outcome[Verification]") -> int:
    """0 where it is ok, 3 where a check failed or it has no machine, 4 where the machine could not be checked."""
    if isinstance(outcome.result, HermesError):
        return outcome.result.exit_code
    return {"ok": 0, "failed": RefusedError.exit_code, "unknown": 4}[verdict(outcome)]
