"""What ends well and what does not, as whoever kills commands at random judges it."""

from dataclasses import replace

import pytest

from tests.support.crash.death import KILLED
from tests.support.crash.expected_instance import Act, ExpectedInstance, Phase
from tests.support.crash.random_kills import Done, _is_repeated, _wrong_end
from tests.support.real.commands.command import Ran
from tests.support.suite.cases import each_case

MOVE = Act("move", ("instance", "move", "ada"), ExpectedInstance("ada", Phase.RUNNING))
REFUSED = replace(MOVE, refusal="is suspended")


def done(act: Act, *ends: tuple[int, str]) -> Done:
    return Done(act, [("", Ran(act.words, code, "", output, 1.0)) for code, output in ends])


@pytest.mark.parametrize(
    "good",
    [
        done(MOVE, (0, "")),
        done(MOVE, (KILLED, ""), (0, "")),
        done(REFUSED, (3, "the agent of ada is suspended")),
    ],
)
def test_what_is_finished_or_rightly_refused_is_well(good: Done) -> None:
    assert _wrong_end(good) == []


@each_case(
    "bad",
    [
        done(MOVE),
        done(MOVE, (1, "Traceback")),
        done(MOVE, (KILLED, "")),
        done(MOVE, (3, "ada is in nbg1 already")),
        done(MOVE, (KILLED, ""), (3, "ada is in nbg1 already")),  # whatever is fulfilled ends with 0
        done(MOVE, (KILLED, ""), (3, "ada has no backup")),
        done(REFUSED, (0, "")),
        done(REFUSED, (3, "another reason")),
        done(REFUSED, (KILLED, ""), (0, "")),
    ],
)
def test_every_other_end_is_wrong(bad: Done) -> None:
    assert len(_wrong_end(bad)) == 1


def test_another_command_in_between_is_not_the_end() -> None:
    killed = done(MOVE, (KILLED, ""))
    killed.attempts.append(("meanwhile", Ran(("instance", "suspend", "ada"), 3, "", "has not ended", 1.0)))
    assert killed.last is not None
    assert _is_repeated(killed.last)
    assert len(_wrong_end(killed)) == 1


@each_case(
    ("code", "message", "again"),
    [
        (4, "", True),
        (6, "", True),
        (3, "holds the lease", True),
        (3, "", False),
        (5, "", False),
        (70, "", False),
        (0, "", False),
    ],
)
def test_what_asks_to_be_repeated_is(code: int, message: str, *, again: bool) -> None:
    assert _is_repeated(Ran(("x",), code, "", message, 1.0)) is again
