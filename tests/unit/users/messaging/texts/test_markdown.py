"""Markdown of agents: marks become styles, and every word stays."""

import time

from hypothesis import given

from hermesops.users.messaging.texts.markdown import read
from hermesops.users.messaging.texts.styled_text import PLAIN, Run, Style, StyledText
from tests.support.suite.cases import each_case
from tests.support.users.agent_texts import TEXTS

BOLD, ITALIC, CODE = Style(bold=True), Style(italic=True), Style(code=True)
SITE = "https://example.test/"


@each_case(
    ("text", "runs"),
    [
        ("**a** b", [Run("a", BOLD), Run(" b")]),
        ("*a* _b_", [Run("a", ITALIC), Run(" "), Run("b", ITALIC)]),
        ("***a***", [Run("a", Style(bold=True, italic=True))]),
        ("~~a~~ ~5", [Run("a", Style(strike=True)), Run(" ~5")]),
        ("~a~", [Run("~a~")]),
        ("`a *b*`", [Run("a *b*", CODE)]),
        ("**a `b`**", [Run("a ", BOLD), Run("b", CODE)]),
        (f"[a]({SITE})", [Run("a", Style(link=SITE))]),
        (f"<{SITE}>", [Run(SITE, Style(link=SITE))]),
        (f"![]({SITE})", [Run(SITE, Style(link=SITE))]),
        ("[a](javascript:x)", [Run("[a](javascript:x)")]),
        ("[a](tg://user?id=1)", [Run("[a](tg://user?id=1)")]),
        ("![a](x.png)", [Run("![a](x.png)")]),
        ("# a *b* #\nc", [Run("a ", BOLD), Run("b", Style(bold=True, italic=True)), Run("\nc")]),
        ("a\n---\nb", [Run("a", BOLD), Run("\nb")]),
        ("```py\nx\n\ny\n```\nz", [Run("x\n\ny", Style(block="py")), Run("\nz")]),
        ("```py a=1\nx\n```", [Run("py a=1\nx", Style(block="py"))]),
        ("```\nx", [Run("x", Style(block=""))]),
        ("1. a\n   ```sh\n   x\n   ```\n", [Run("1. a\n   "), Run("x", Style(block="sh")), Run("\n")]),
        ("|a|b|\n|-|-|\n|*c*|d|\n\ne", [Run("|a|b|\n|-|-|\n|*c*|d|", Style(block="")), Run("\n\ne")]),
        ("- a\n  * b\n+ c", [Run("\u2022 a\n  \u2022 b\n\u2022 c")]),
        ("1. a\n2. b", [Run("1. a\n2. b")]),
        ("> a\n> b", [Run("> a\n> b")]),
        ("\\*a\\* &lt;", [Run("*a* <")]),
        ("> \\*a", [Run("> *a")]),
        ("a || b || c", [Run("a || b || c")]),
        ("<div>\na\n</div>\n\nb", [Run("<div>\na\n</div>\n\nb")]),
        ("a<br>b<!-- c -->", [Run("a<br>b<!-- c -->")]),
        ("[`a`](https://a.test)", [Run("a", Style(link="https://a.test"))]),
        ("~~~~hello ", [Run("hello", Style(block="hello"))]),
        ("a **<b>** c", [Run("a "), Run("<b>", Style(bold=True)), Run(" c")]),
        ("[<b>](https://a.test)", [Run("<b>", Style(link="https://a.test"))]),
        ("2 * 3 * 4 snake_case_name", [Run("2 * 3 * 4 snake_case_name")]),
        ("[a]: https://example.test/\n\nb", [Run("[a]: https://example.test/\n\nb")]),
        ("", []),
        ("\ud800", [Run("?")]),
    ],
)
def test_marks_become_styles_and_the_rest_stays(text: str, runs: list[Run]) -> None:
    assert read(text) == StyledText(tuple(runs))


@given(TEXTS)
def test_no_word_of_whatever_comes_is_lost(text: str) -> None:
    styled = read(text)
    points = iter(point for run in styled.runs for point in f"{run.style.block or ''}{run.text}")
    # Addresses of links are no words: runs of one address are one, and cases above show that it stays.
    written = text.replace("&amp;", "&").replace("python", "").replace("https://example.test/", "")
    words = [point for point in written if point in _WORDS]
    assert all(point in points for point in words), "the words of a text, in their order"
    assert StyledText.joined(styled.runs) == styled


_WORDS = frozenset("quickbrownfxjumpsvlazydg\u6f22")
"""Letters, of which a mark has none but the language of a block of code and the address of a link."""


def test_plain_text_is_one_run() -> None:
    assert read("hello\nthere") == StyledText((Run("hello\nthere", PLAIN),))


@each_case(
    "piece", ["[", "![", "*a ", "> ", "- ", "a\n", "`", "<a ", "[a](<b", "**", "|a", "&#", "\\", "~~a ~", "[a]: x\n[a]"]
)
def test_a_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    begun = time.process_time()
    read(piece * (30_000 // len(piece)))
    assert time.process_time() - begun < 2
