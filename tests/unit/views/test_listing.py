"""Rows are chosen by the words in their values."""

from typing import Any

from hermesops.errors import Hint
from hermesops.views.listing import containing

ROWS: list[dict[str, Any]] = [
    {"user": "Ada", "health": "down", "reasons": ["its machine is stopped"], "next": Hint(("runbook", "run", "x"))},
    {"user": "bob", "health": None, "reasons": ["no heartbeat"], "next": Hint()},
]


def test_each_word_has_to_occur_in_a_value() -> None:
    for text, users in {
        "": ["Ada", "bob"],
        "ADA": ["Ada"],
        "stopped ada": ["Ada"],
        "ada heartbeat": [],
        "runbook": ["Ada"],
        "health": [],
        "  ": ["Ada", "bob"],
    }.items():
        assert [row["user"] for row in containing(ROWS, text)] == users, text
