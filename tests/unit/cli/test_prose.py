"""Sentences fit a terminal, and what is copied from it stays whole."""

from hermesops.cli.printing.prose import folded


def test_a_sentence_is_folded_between_words_below_a_hanging_indent() -> None:
    line = "error: the machine of ada does not answer, and nothing was changed there"
    assert folded(line, 45) == ["error: the machine of ada does not answer,", "    and nothing was changed there"]
    assert folded(line, len(line)) == [line]
    assert all(len(each) <= 30 for each in folded(line, 30))


def test_nothing_that_is_copied_is_broken() -> None:
    command = "hermesops instance terminate ada --undo"
    assert folded(f"ending: ada ends tomorrow; {command} cancels that", 45, {command}) == [
        "ending: ada ends tomorrow;",
        f"    {command}",
        "    cancels that",
    ]
    for whole in (
        "`make built all`",
        "90 s",
        "'sport = 443'",
        "pip install --upgrade -e .",
        "https://x.example/" + "a" * 60,
    ):
        pieces = folded(f"hint: somebody else has this port already: {whole} says who", 50)
        assert any(whole in piece for piece in pieces), pieces
    for line in ("    $ hermesops " + "word " * 30, "    or 2. $ hermesops " + "word " * 30):
        assert folded(line, 40) == [line]


def test_columns_stay_and_values_continue_below_themselves() -> None:
    assert folded("limits    memory, cpu, disk and everything else", 30) == [
        "limits    memory, cpu, disk",
        "          and everything else",
    ]
    assert folded("  backup    2 min ago: not checked yet", 36) == [
        "  backup    2 min ago: not checked",
        "            yet",
    ]
    assert folded("    a line that was indented before", 20) == ["    a line that was", "    indented before"]


def test_wide_characters_count_twice() -> None:
    assert folded("名前 名前 名前 名前", 14) == ["名前 名前 名前", "    名前"]
