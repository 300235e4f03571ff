"""The outcome of a wait: its exit code, and the last state of each instance."""

from dataclasses import replace

import pytest

from hermesops.agents.health.instance_waits import Waited
from hermesops.cli.commands import wait as command
from hermesops.errors import UsageError
from hermesops.model.fleet.health import Condition
from hermesops.views.agents import instances as instance_shapes
from tests.support.fakes.instances import ADA

REACHED = Waited(ADA, "healthy", "the gateway answered", is_reached=True, waited_s=12.3)
LEFT = Waited(replace(ADA, user_alias="ben"), "down", "its machine is stopped", is_reached=False, waited_s=300)
ENDED = Waited(replace(ADA, user_alias="cleo"), "terminated", "", is_reached=False, waited_s=1)


def test_the_exit_code_says_whether_it_can_still_be_reached() -> None:
    for waited, code, message in (
        ([LEFT], 4, "waited 300 s for ben to be healthy; last seen: ben down"),
        ([REACHED, LEFT], 4, "waited 300 s for 1 of 2 to be healthy; last seen: ben down"),
        ([LEFT, ENDED], 3, "not healthy any more: cleo"),
    ):
        failure = command._failure(waited, Condition.HEALTHY, 300)
        assert failure is not None
        assert (failure.exit_code, failure.message) == (code, message)
    assert command._failure([REACHED], Condition.HEALTHY, 300) is None


def test_each_instance_has_its_line() -> None:
    assert command._line(REACHED) == "ada: healthy after 12 s"
    assert command._line(LEFT) == "ben: down after 300 s, its machine is stopped"
    assert instance_shapes.waited(LEFT)["reached"] is False


def test_a_state_that_there_is_not_is_refused_with_those_there_are() -> None:
    assert command._state("suspended") == "suspended"
    for state in ("red", "unknown"):
        with pytest.raises(UsageError, match="one of provisioning, running, suspended, terminated, down"):
            command._state(state)
