"""Lists show what was recorded where JustAVPS does not answer."""

import pytest

from hermesops.cli.options.watch import run_if_answered
from hermesops.errors import RefusedError, UnavailableError


async def answers() -> None:
    """Nothing is wrong."""


async def fails(error: Exception) -> None:
    raise error


def test_a_question_that_is_not_answered_keeps_no_list_from_being_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_if_answered(answers())
    assert not run_if_answered(fails(UnavailableError("no connection")))
    assert "JustAVPS is not asked (no connection)" in capsys.readouterr().err
    with pytest.raises(RefusedError, match="the key is refused"):
        run_if_answered(fails(RefusedError("the key is refused")))
