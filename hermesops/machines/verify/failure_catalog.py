"""Recognises known failures in observations. Pure.

The six are those that operators of hermes-agent meet first (the table of failure modes in the architecture notes of
the workspace template); each has one cause to look for and one command that repairs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hermesops.errors import Hint
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.observations import Observations

_OK = 200
_UNAUTHORISED = frozenset({401, 403})
_BAD_REQUEST = 400


class Failure(StrEnum):
    """A known failure; runbooks and programs use the value."""

    BOOT_PROBE = "gateway-never-healthy"
    KEY_MISMATCH = "api-key-mismatch"
    UNKNOWN_MODEL = "unknown-model"
    GONE_AFTER_BOOT = "gateway-gone-after-boot"
    SKILLS_NOT_KEPT = "skills-not-kept"
    KEY_NOT_FORWARDED = "model-key-not-forwarded"


SILENCES = frozenset({Failure.BOOT_PROBE, Failure.GONE_AFTER_BOOT})
"""Failures of a gateway that does not answer."""


@dataclass(frozen=True)
class Finding:
    """A failure that was recognised.

    Attributes:
        hint: What to do; USER stands for the instance's user.
    """

    failure: Failure
    seen: str
    hint: Hint


def diagnose(observations: Observations, expected: Expected) -> tuple[Finding, ...]:
    """Derive the known failures from observations; empty for a healthy machine or one without an instance."""
    if observations.identity is None:
        return ()
    findings = (
        *_silence(observations),
        *_refusal(observations, expected),
        *_model(observations),
        *_memory(observations),
    )
    return tuple(finding for finding in findings if finding)


def _silence(observations: Observations) -> Iterator[Finding]:
    if observations.alive_status == _OK or _is_starting(observations):
        return
    unit = observations.unit
    how = f"{unit.get('ActiveState', '?')}, result {unit.get('Result', '?')}, {unit.get('NRestarts', '0')} restarts"
    if _was_ready(observations):
        yield Finding(
            Failure.GONE_AFTER_BOOT,
            f"the gateway was ready and answers no more ({how}): {observations.alive_reason}",
            Hint(
                ("instance", "logs", "USER"), "shows how it ended,", ("instance", "restart", "USER"), "brings it back"
            ),
        )
    else:
        yield Finding(
            Failure.BOOT_PROBE,
            f"the gateway has not become healthy since it was last started ({how}): {observations.alive_reason}",
            Hint(("instance", "logs", "USER"), "shows why it ends at its start"),
        )


def _is_starting(observations: Observations) -> bool:
    return observations.unit.get("SubState") == "start" and observations.unit.get("NRestarts", "0") == "0"


def _was_ready(observations: Observations) -> bool:
    """Whether the gateway told systemd "ready" after its last start."""
    ready, began = (
        int(observations.unit.get(name) or 0)
        for name in ("ActiveEnterTimestampMonotonic", "ExecMainStartTimestampMonotonic")
    )
    return 0 < began <= ready


def _refusal(observations: Observations, expected: Expected) -> Iterator[Finding]:
    if expected.key_digest and observations.key_digest != expected.key_digest:
        yield Finding(
            Failure.KEY_MISMATCH,
            "the machine holds another API key than the registry: requests with ours get 401",
            Hint(("provision", "USER"), "hands the key over again"),
        )
    elif observations.detailed_status in _UNAUTHORISED:
        yield Finding(
            Failure.KEY_MISMATCH,
            f"the running gateway answers {observations.detailed_status} to the key in /etc/hermes/.env: "
            "it still has another",
            Hint(("instance", "restart", "USER")),
        )


def _model(observations: Observations) -> Iterator[Finding]:
    if observations.has_own_provider and observations.has_model_key:
        return
    if not observations.has_model_key or observations.router_status in _UNAUTHORISED:
        what = (
            f"the model router answers {observations.router_status} to the instance's token"
            if observations.has_model_key
            else "no token for the model router: "
            f"{observations.key_variable or 'its variable'} is not in /etc/hermes/.env"
        )
        yield Finding(Failure.KEY_NOT_FORWARDED, what, Hint(("provision", "USER"), "hands the token over again"))
    elif observations.router_status == _OK and observations.model not in observations.offered:
        yield Finding(
            Failure.UNKNOWN_MODEL,
            f"the agent asks for model {observations.model!r}, which the router refuses with {_BAD_REQUEST}; "
            f"it has {', '.join(observations.offered)}",
            Hint("choose one of them in the user's settings, then", ("provision", "USER")),
        )


def _memory(observations: Observations) -> Iterator[Finding]:
    if observations.alive_status != _OK:
        return
    if observations.home != observations.promised_home:
        what = f"the gateway keeps its state in {observations.home}, not in {observations.promised_home}"
    elif not observations.home_kept:
        what = f"{observations.home} lies on {observations.filesystem}: skills and memories are gone at every restart"
    elif observations.skills < 1 and observations.bundled_skills > 0:
        what = f"{observations.home}/skills holds nothing, though the slot brings {observations.bundled_skills} skills"
    else:
        return
    yield Finding(
        Failure.SKILLS_NOT_KEPT,
        what,
        Hint(
            ("instance", "exec", "USER", "systemctl cat hermes-gateway.service"),
            "shows the setting that moved it; remove it and restart",
        ),
    )
