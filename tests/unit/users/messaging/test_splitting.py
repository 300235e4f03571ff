"""Long texts in parts: joined again they are the text, none is too long, fences are closed and opened again."""

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.messenger import LIMITS, TextLimit
from hermesops.users.messaging.splitting import split
from tests.support.suite.cases import each_case

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG, THUMB, ACCENT = "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "e\u0301"
PIECES = st.sampled_from(
    [
        *("hello ", "\n", "\n\n", "```python\n", "```\n", "~~~\n", "x" * 150, " a", "`", "``", "漢字", "\r\n"),
        *(FAMILY, FLAG, THUMB, ACCENT, "| a | b |\n", "\u202e", "\ud800"),
    ]
)
SMALL = (TextLimit(100, "utf16"), TextLimit(120, "chars"))


@given(st.lists(PIECES, max_size=60).map("".join), st.sampled_from([*SMALL, *LIMITS.values()]))
def test_parts_are_the_text_and_none_is_too_long(text: str, limit: TextLimit) -> None:
    parts = split(text.encode(errors="replace").decode(), limit)
    assert "".join(part.source for part in parts) == text.encode(errors="replace").decode()
    assert all(part.source and limit.length(part.text) <= limit.most for part in parts)


def test_what_fits_is_one_part_and_nothing_is_none() -> None:
    assert [part.text for part in split("hello", LIMITS["telegram"])] == ["hello"]  # type: ignore[index]
    assert split("", SMALL[0]) == ()


def test_a_cut_fence_is_closed_and_opened_again_with_its_language() -> None:
    code = "".join(f"line_{number} = {number}\n" for number in range(12))
    parts = split(f"Look:\n```python\n{code}```\nDone.\n", SMALL[0])
    assert len(parts) > 2
    assert all(part.text.count("```") % 2 == 0 for part in parts)
    assert all(part.text.startswith("```python\n") for part in parts[1:-1])


def test_what_closes_and_opens_a_fence_counts() -> None:
    for limit in SMALL:
        parts = split("```python\n" + "x" * 900 + "\n```", limit)
        assert max(limit.length(part.text) for part in parts) <= limit.most


@each_case("grapheme", [FAMILY, FLAG, THUMB, ACCENT])
def test_no_part_ends_inside_of_what_is_seen_as_one_character(grapheme: str) -> None:
    text = grapheme * 60
    for part in split(text, SMALL[0]):
        assert part.source == grapheme * (len(part.source) // len(grapheme))


def test_parts_end_at_paragraphs_lines_and_words_where_there_are_some() -> None:
    words = split("word " * 60, SMALL[1])
    assert all(part.source.endswith(" ") for part in words)
    paragraphs = split(("word " * 8 + "\n\n") * 8, SMALL[1])
    assert all(part.source.endswith("\n\n") for part in paragraphs)
