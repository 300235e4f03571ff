from typing import Any

import pytest

from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.failure_catalog import Failure, diagnose
from hermesops.machines.verify.observations import Observations
from tests.support.fakes.machines.healthy_machine import HEALTHY_OBSERVATION, INSTANCE, KEY_DIGEST
from tests.support.suite.cases import each_case

EXPECTED = Expected(INSTANCE, 1, KEY_DIGEST)


def named(expected: Expected = EXPECTED, **changes: dict[str, Any] | None) -> list[Failure]:
    """The failures recognised when groups of the observer's answer are changed."""
    answer = {
        group: {**value, **change} if isinstance(change := changes.get(group, value), dict) else change
        for group, value in HEALTHY_OBSERVATION.items()
    }
    return [finding.failure for finding in diagnose(Observations.parse(answer), expected)]


SILENT: dict[str, Any] = {
    "alive": {"status": 0, "version": "", "reason": "[Errno 111] Connection refused"},
    "detailed": {"status": 0},
}


def unit(state: str, sub: str, *, started: float, ready: float, restarts: int = 0) -> dict[str, str]:
    """Seconds of the machine's clock at which the last process started, and at which one was last called ready."""
    timestamps = {"ExecMainStartTimestampMonotonic": started, "ActiveEnterTimestampMonotonic": ready}
    words = {"ActiveState": state, "SubState": sub, "NRestarts": str(restarts), "Result": "exit-code"}
    return {**words, **{name: str(int(seconds * 1e6)) for name, seconds in timestamps.items()}}


def test_a_healthy_machine_has_no_known_failure() -> None:
    assert named() == []


@each_case(
    "observed",
    [
        unit("failed", "failed", started=5, ready=0),
        unit("activating", "auto-restart", started=50, ready=0, restarts=3),
        unit("activating", "start", started=50, ready=0, restarts=3),
        unit("activating", "auto-restart", started=60, ready=10, restarts=4),
        unit("failed", "failed", started=30, ready=10),
    ],
    ids=["failed at once", "restarting", "trying again", "died, then fails at each start", "started anew and failed"],
)
def test_a_gateway_that_never_became_healthy_failed_its_probe_at_boot(observed: dict[str, str]) -> None:
    assert named(unit=observed, **SILENT) == [Failure.BOOT_PROBE]


@pytest.mark.parametrize(
    "observed",
    [
        unit("failed", "failed", started=7, ready=10),
        unit("activating", "auto-restart", started=7, ready=10, restarts=1),
        unit("inactive", "dead", started=7, ready=10),
        unit("active", "running", started=7, ready=10),
    ],
    ids=["failed", "waiting for its restart", "stopped", "hanging"],
)
def test_a_gateway_that_was_ready_and_is_silent_is_gone_after_boot(observed: dict[str, str]) -> None:
    assert named(unit=observed, **SILENT) == [Failure.GONE_AFTER_BOOT]


def test_a_first_start_is_given_time() -> None:
    assert named(unit=unit("activating", "start", started=98, ready=0), **SILENT) == []


def test_a_gateway_with_an_older_key_is_a_mismatch() -> None:
    assert named(detailed={"status": 401}) == [Failure.KEY_MISMATCH]


def test_a_machine_with_another_key_than_the_registry_is_a_mismatch() -> None:
    assert named(key_digest=None) == [Failure.KEY_MISMATCH]
    assert named(Expected(INSTANCE, 1, "f" * 64)) == [Failure.KEY_MISMATCH]
    assert named(Expected(INSTANCE, 1)) == [], "nothing to compare with"


def test_a_model_the_router_has_not_is_unknown() -> None:
    assert named(model={"name": "claude-opus"}) == [Failure.UNKNOWN_MODEL]


@pytest.mark.parametrize("change", [{"has_key": False}, {"router_status": 401}, {"router_status": 403}])
def test_a_token_that_does_not_arrive_at_the_router_is_not_forwarded(change: dict[str, Any]) -> None:
    assert named(model=change) == [Failure.KEY_NOT_FORWARDED]


def test_a_silent_router_is_none_of_the_known_failures() -> None:
    assert named(model={"router_status": 0, "offered": []}) == []


def test_a_users_own_provider_has_no_models_of_the_router() -> None:
    own = {"own": True, "name": "gpt-5.2", "router_status": 0, "offered": []}
    assert named(model=own) == []
    assert named(model={**own, "has_key": False}) == [Failure.KEY_NOT_FORWARDED]


@pytest.mark.parametrize(
    "change",
    [{"filesystem": "tmpfs"}, {"used": "/tmp/.hermes"}, {"skills": 0}, {"skills": -1}],  # noqa: S108 - a wrong home
)
def test_a_home_that_is_forgotten_loses_skills(change: dict[str, Any]) -> None:
    assert named(home=change) == [Failure.SKILLS_NOT_KEPT]


def test_a_stopped_gateway_is_not_blamed_for_its_skills() -> None:
    stopped = unit("failed", "failed", started=7, ready=10)
    assert named(unit=stopped, home={"skills": -1}, **SILENT) == [Failure.GONE_AFTER_BOOT]


def test_two_failures_are_both_named() -> None:
    assert named(detailed={"status": 401}, model={"name": "x"}) == [Failure.KEY_MISMATCH, Failure.UNKNOWN_MODEL]


def test_a_machine_that_is_nobodys_has_no_failure() -> None:
    assert named(identity=None, **SILENT) == []


def test_every_finding_says_what_to_do() -> None:
    observations = Observations.parse(
        {**HEALTHY_OBSERVATION, "model": {**HEALTHY_OBSERVATION["model"], "has_key": False}}
    )
    (finding,) = diagnose(observations, EXPECTED)
    assert "hermesops" in str(finding.hint)
    assert "TOKEN" in finding.seen
