"""How an agent ends, by settings and an operator's wish."""

from datetime import timedelta

import pytest

from hermesops.agents.instances.requests.termination import Termination, TerminationPolicy
from hermesops.errors import UsageError

DAYS, NONE = timedelta(days=30), timedelta()


def test_days_of_grace_are_skipped_by_now_or_by_settings_that_have_none() -> None:
    cases = {(DAYS, False): False, (DAYS, True): True, (NONE, False): True, (NONE, True): True}
    for (grace, now), at_once in cases.items():
        chosen = TerminationPolicy(grace, requires_backup=True).choose(now=now, without_backup=False)
        assert chosen == Termination(at_once, keeps_backup=True), (grace, now)


def test_a_last_backup_is_made_unless_settings_or_the_operator_say_otherwise() -> None:
    cases = {(True, False): True, (True, True): False, (False, False): False, (False, True): False}
    for (required, without), keeps in cases.items():
        chosen = TerminationPolicy(NONE, required).choose(now=False, without_backup=without)
        assert chosen.keeps_backup is keeps, (required, without)


def test_an_agent_with_days_of_grace_is_not_left_without_a_backup() -> None:
    with pytest.raises(UsageError, match="with days of grace has a backup"):
        TerminationPolicy(DAYS, requires_backup=False).choose(now=False, without_backup=True)
