"""Recognises known failures by what was observed. Pure.

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


def diagnose(seen: Observations, expected: Expected) -> tuple[Finding, ...]:
    """The known failures that explain what was observed; empty for a healthy machine or one without an instance."""
    if seen.identity is None:
        return ()
    found = (*_silence(seen), *_refusal(seen, expected), *_model(seen), *_memory(seen))
    return tuple(finding for finding in found if finding)


def _silence(seen: Observations) -> Iterator[Finding]:
    if seen.alive_status == _OK or _is_starting(seen):
        return
    unit = seen.unit
    how = f"{unit.get('ActiveState', '?')}, result {unit.get('Result', '?')}, {unit.get('NRestarts', '0')} restarts"
    if _was_ready(seen):
        yield Finding(
            Failure.GONE_AFTER_BOOT,
            f"the gateway was ready and answers no more ({how}): {seen.alive_reason}",
            Hint(
                ("instance", "logs", "USER"), "shows how it ended,", ("instance", "restart", "USER"), "brings it back"
            ),
        )
    else:
        yield Finding(
            Failure.BOOT_PROBE,
            f"the gateway has not become healthy since it was last started ({how}): {seen.alive_reason}",
            Hint(("instance", "logs", "USER"), "shows why it ends at its start"),
        )


def _is_starting(seen: Observations) -> bool:
    return seen.unit.get("SubState") == "start" and seen.unit.get("NRestarts", "0") == "0"


def _was_ready(seen: Observations) -> bool:
    """Whether the gateway told systemd "ready" after its last start."""
    ready, began = (
        int(seen.unit.get(name) or 0) for name in ("ActiveEnterTimestampMonotonic", "ExecMainStartTimestampMonotonic")
    )
    return 0 < began <= ready


def _refusal(seen: Observations, expected: Expected) -> Iterator[Finding]:
    if expected.key_digest and seen.key_digest != expected.key_digest:
        yield Finding(
            Failure.KEY_MISMATCH,
            "the machine holds another API key than the registry: requests with ours get 401",
            Hint(("provision", "USER"), "hands the key over again"),
        )
    elif seen.detailed_status in _UNAUTHORISED:
        yield Finding(
            Failure.KEY_MISMATCH,
            f"the running gateway answers {seen.detailed_status} to the key in /etc/hermes/.env: it still has another",
            Hint(("instance", "restart", "USER")),
        )


def _model(seen: Observations) -> Iterator[Finding]:
    if not seen.has_model_key or seen.router_status in _UNAUTHORISED:
        what = (
            f"the model router answers {seen.router_status} to the instance's token"
            if seen.has_model_key
            else f"no token for the model router: {seen.key_variable or 'its variable'} is not in /etc/hermes/.env"
        )
        yield Finding(Failure.KEY_NOT_FORWARDED, what, Hint(("provision", "USER"), "hands the token over again"))
    elif seen.router_status == _OK and seen.model not in seen.offered:
        yield Finding(
            Failure.UNKNOWN_MODEL,
            f"the agent asks for model {seen.model!r}, which the router refuses with {_BAD_REQUEST}; "
            f"it has {', '.join(seen.offered)}",
            Hint("choose one of them in the user's settings, then", ("provision", "USER")),
        )


def _memory(seen: Observations) -> Iterator[Finding]:
    if seen.alive_status != _OK:
        return
    if seen.home != seen.promised_home:
        what = f"the gateway keeps its state in {seen.home}, not in {seen.promised_home}"
    elif not seen.home_kept:
        what = f"{seen.home} lies on {seen.filesystem}: skills and memories are gone at every restart"
    elif seen.skills < 1 and seen.bundled_skills > 0:
        what = f"{seen.home}/skills holds nothing, though the slot brings {seen.bundled_skills} skills"
    else:
        return
    yield Finding(
        Failure.SKILLS_NOT_KEPT,
        what,
        Hint(
            ("instance", "exec", "USER", "systemctl cat hermes-gateway.service"),
            "shows who moved it; remove that, restart",
        ),
    )
