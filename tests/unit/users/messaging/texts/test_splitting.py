"""Long texts in parts: joined again they are the text, none is too long, and styles hold on both sides of a cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.messenger import LIMITS, Messenger, TextLimit
from hermesops.users.messaging.messengers.slack import write as slack
from hermesops.users.messaging.texts import markdown
from hermesops.users.messaging.texts.parts import WRITINGS
from hermesops.users.messaging.texts.splitting import split
from hermesops.users.messaging.texts.styled_text import Run, Style, StyledText
from tests.support.suite.cases import each_case
from tests.support.users.agent_texts import ACCENT, FAMILY, FLAG, TEXTS, THUMB

SMALL = TextLimit(100, "utf16")


def lengths(text: StyledText) -> int:
    return SMALL.length(text.text)


@pytest.mark.parametrize("messenger", WRITINGS)
@given(text=TEXTS, most=st.sampled_from([80, 300, 4000]))
def test_parts_are_the_text_and_none_is_too_long(messenger: Messenger, text: str, most: int) -> None:
    styled, writing = markdown.read(text), WRITINGS[messenger]
    parts = split(styled, TextLimit(most, LIMITS[messenger].unit), writing.measure)
    assert StyledText.joined(run for part in parts for run in part.runs) == styled
    assert all(part.text and writing.measure(part) <= most for part in parts)


def test_what_fits_is_one_part_and_nothing_is_none() -> None:
    assert split(markdown.read("hello"), SMALL, lengths) == (markdown.plain("hello"),)
    assert split(StyledText(), SMALL, lengths) == ()


def test_a_cut_block_of_code_is_one_in_each_part_and_is_cut_between_lines() -> None:
    code = "".join(f"line_{number} = {number}\n" for number in range(30))
    parts = split(markdown.read(f"Look:\n```python\n{code}```\nDone.\n"), SMALL, lengths)
    assert len(parts) > 3
    assert all(part.runs[0].style.block == "python" for part in parts[1:-1])
    assert all(part.text.endswith("\n") for part in parts[1:-1])


def test_what_marks_and_escapes_take_counts() -> None:
    parts = split(markdown.plain("<" * 300), TextLimit(100, "chars"), slack.measure)
    assert [len(slack.write(part)) for part in parts[:2]] == [92, 92]
    assert "".join(part.text for part in parts) == "<" * 300


@each_case("grapheme", [FAMILY, FLAG, THUMB, ACCENT])
def test_no_part_ends_inside_of_what_is_seen_as_one_character(grapheme: str) -> None:
    for part in split(markdown.plain(grapheme * 60), SMALL, lengths):
        assert part.text == grapheme * (len(part.text) // len(grapheme))


def test_a_space_and_the_accent_on_it_stay_together() -> None:
    parts = split(markdown.plain("x" * 60 + " \u0301" + "y" * 60), SMALL, lengths)
    assert not any(part.text.startswith("\u0301") for part in parts)


def test_parts_end_at_paragraphs_lines_and_words_where_there_are_some() -> None:
    words = split(markdown.plain("word " * 60), SMALL, lengths)
    assert all(part.text.endswith(" ") for part in words)
    paragraphs = split(markdown.plain(("word " * 8 + "\n\n") * 8), SMALL, lengths)
    assert all(part.text.endswith("\n\n") for part in paragraphs)


@each_case("marked", ["**{}**", "`{}`", "[{}](https://example.test/)", "~~{}~~", "*{}*"])
def test_no_part_ends_inside_of_a_styled_stretch_that_another_could_have_whole(marked: str) -> None:
    words = "one two three four five six"
    parts = split(markdown.read(f"{'a ' * 39}{marked.format(words)} {'b ' * 30}"), SMALL, lengths)
    assert sum(run.text == words for part in parts for run in part.runs) == 1


def test_a_styled_stretch_longer_than_a_part_keeps_its_style_on_both_sides() -> None:
    parts = split(markdown.read(f"**{'word ' * 50}end**"), SMALL, lengths)
    assert all(run.style == Style(bold=True) for part in parts for run in part.runs)
    assert len(parts) == 3


def test_a_cut_changes_nothing() -> None:
    text = StyledText((Run("ab"), Run("cd", Style(bold=True))))
    for at in range(5):
        before, after = text.cut(at)
        assert (len(before.text), StyledText.joined([*before.runs, *after.runs])) == (at, text)
