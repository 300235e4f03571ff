"""Texts as agents write them, generated: Markdown of all kinds, cut marks, wide and joined characters."""

import random

from hypothesis import strategies as st

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG, THUMB, ACCENT = "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "e\u0301"

PIECES = (
    *("hello ", "\n", "\n\n", "```python\n", "```\n", "~~~\n", "x" * 150, " a", "`", "``", "\u6f22\u5b57", "\r\n"),
    *(FAMILY, FLAG, THUMB, ACCENT, "| a | b |\n", "|---|---|\n", "\u202e", "\ud800", "\x00", "\\", "&amp;", "&"),
    *("**", "*", "_", "__", "~~", "~", "# ", "> ", "- ", "1. ", "   ", "[", "](https://example.test/)", "![", "](x)"),
    *("<b>", "<div>\n", "</div>", "<https://example.test/>", "---\n", "***", "<!channel>", "<@U1>", "@everyone "),
    "The quick brown fox jumps over the lazy dog. ",
)

TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


def text_of(rng: random.Random) -> str:
    """A text of some hundred to some twenty thousand characters."""
    return "".join(rng.choices(PIECES, k=rng.choice([5, 40, 200, 1000])))
