"""Says which failed checks follow from another one, so that one cause reads as one and has one next command. Pure.

Only what cannot hold without the cause follows from it: a token that the router refuses is a failure of its own, also
on a machine whose gateway does not run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hermesops.errors import Hint
from hermesops.machines.verify.checks.promise import GATEWAY
from hermesops.machines.verify.failure_catalog import SILENCES, Finding
from hermesops.machines.verify.observations import Observations
from hermesops.model.check import Check

FILES = "secrets"
"""The check of the files that a machine is handed: without one of them no gateway starts."""

_NEED_FILES = frozenset({"identity", "key", "model", "payload", "watchdog"})
"""Checks that read those files, besides those that need an answer of the gateway."""


@dataclass(frozen=True)
class Causes:
    """Root causes of failed checks on one machine.

    Attributes:
        files: Whether a file that it is handed is absent.
        silence: Name of the finding that says why the gateway does not answer; empty where it answers.
    """

    files: bool
    silence: str
    observations: Observations

    def attribute(self, checks: Sequence[Check]) -> tuple[Check, ...]:
        """Replace the hints of consequential failures with the name of their cause."""
        return tuple(self._attributed(check) for check in checks)

    def _attributed(self, check: Check) -> Check:
        cause = "" if check.verdict.holds else self._cause_of(check)
        return replace(check, hint=Hint(f"caused by {cause}: run its command first")) if cause else check

    def _cause_of(self, check: Check) -> str:
        silent = check.name in {"gateway-service", *_answers(self.observations)} or check.seen == f"failed: {GATEWAY}"
        if self.files and (silent or check.name in _NEED_FILES or check.name.startswith("diagnosis:")):
            return FILES
        return self.silence if self.silence and silent else ""


def causes_of(checks: Sequence[Check], findings: Sequence[Finding], observations: Observations) -> Causes:
    """Derive root causes from checks and findings; ``findings`` are of the same observations."""
    files = any(check.name == FILES and " is absent" in check.seen for check in checks if not check.verdict.holds)
    silence = next((f"diagnosis:{finding.failure}" for finding in findings if finding.failure in SILENCES), "")
    return Causes(files, silence, observations)


def _answers(observations: Observations) -> Iterator[str]:
    """Names of checks that read an answer which nobody gives."""
    if observations.alive_status:
        return
    yield from ("api", "ready", "chat")
    if observations.release.get("hermes_agent"):
        yield "release"
    if observations.key_digest and not observations.detailed_status:
        yield "key"
    if not observations.filesystem:
        yield "skills"
