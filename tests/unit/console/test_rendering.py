"""Values of pages: texts are data, hints are commands, ages are words."""

from datetime import UTC, datetime, timedelta

from hermesops.console.rendering import Pages, age, runbook_of
from hermesops.errors import Hint

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_an_age_is_never_negative_and_a_time_to_come_is_said_as_one() -> None:
    assert age((NOW - timedelta(minutes=3, seconds=2)).isoformat(), NOW) == "3 min 2 s"
    assert age((NOW + timedelta(seconds=3)).isoformat(), NOW) == "0 s", "a clock that is ahead"
    assert age((NOW + timedelta(days=7)).isoformat(), NOW) == "in 7 d 0 h"
    assert age(None, NOW) == ""


def test_a_hint_names_its_runbook() -> None:
    assert runbook_of(Hint(("runbook", "run", "gateway-down", "--instance", "ada"))) == "gateway-down"
    for hint in (Hint(("instance", "show", "ada")), Hint("runbook"), Hint(("runbook", "run")), Hint(), None):
        assert runbook_of(hint) == ""


def test_texts_are_escaped_and_invisible_characters_shown() -> None:
    hint = Hint(("instance", "show", "<i>"))
    page = Pages("local", "").page("error", message="<b>\x1b[2J\u202e\"'", hint=hint, field="max_agents")
    text = bytes(page.body).decode()
    assert r"&lt;b&gt;\x1b[2J\u202e&#34;&#39;" in text
    assert "max agents: " in text
    assert "hermesops instance show &#39;&lt;i&gt;&#39;" in text


def test_commands_name_the_environment_that_was_chosen() -> None:
    assert Pages("staging", "staging").command(("instance", "restart", "ada")) == (
        "hermesops --env staging instance restart ada"
    )
