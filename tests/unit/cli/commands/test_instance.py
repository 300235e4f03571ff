"""Commands on one or several machines: which words are users, and what is refused before anything is opened."""

import pytest

from hermesops.cli import context
from hermesops.cli.commands.instance import execution, verification
from hermesops.errors import UsageError


def test_a_state_is_compared_of_one_agent() -> None:
    for users, where in ((["ada", "ben"], ""), (None, "plan=light"), (None, "")):
        with pytest.raises(UsageError, match="name one USER"):
            verification.verify(users, where, state=True)


def test_a_command_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "compose", lambda: None)
    with pytest.raises(UsageError, match="missing COMMAND"):
        execution.exec_(["ada"], reason="look")
    with pytest.raises(UsageError, match="a number of seconds above 0"):
        execution.exec_(["ada", "true"], reason="look", timeout=0)
