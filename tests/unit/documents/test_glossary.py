"""The glossary explains each word once, in one sentence, and has each noun of the command line."""

import re
from pathlib import Path

from hermesops.cli.commands import SUMMARIES

_TEXT = (Path(__file__).parents[3] / "runbooks" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", _TEXT, re.MULTILINE)[2:]
"""Words and what each means, without the head of the table and the line below it."""

WORDS = [word for entry, _ in ENTRIES for word in entry.split(", ")]


def test_each_word_has_one_entry_in_alphabetical_order() -> None:
    assert len(WORDS) == len(set(WORDS)) > 100
    first = [entry.lower() for entry, _ in ENTRIES]
    assert first == sorted(first)


def test_each_entry_is_one_sentence() -> None:
    assert not [entry for entry, meaning in ENTRIES if re.search(r"\.(\s|$)", meaning)]


def test_each_noun_of_the_command_line_has_an_entry() -> None:
    assert not [noun for noun in SUMMARIES if not any(word.startswith(noun.removesuffix("s")) for word in WORDS)]
