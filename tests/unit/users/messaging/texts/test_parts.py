"""Texts as messengers get them; ``make soak`` tries many more."""

import json

import pytest

from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.telegram import write as telegram
from hermesops.users.messaging.texts.parts import WRITINGS, line_of, parts_of
from tests.support.suite.cases import each_case
from tests.support.users.text_trial import try_texts

SITE = "https://example.test/?a=1&b=|"


@pytest.mark.parametrize("messenger", WRITINGS)
def test_many_texts_are_within_the_limits_and_come_back_whole(messenger: Messenger) -> None:
    assert try_texts(messenger, 60) >= 60


@each_case(
    ("text", "shown", "entities"),
    [
        ("hello", "hello", []),
        ("\n\n  hello  \n", "  hello", []),
        ("\U0001f600 **b**", "\U0001f600 b", [{"type": "bold", "offset": 3, "length": 1}]),
        (
            "**a *b***",
            "a b",
            [{"type": "bold", "offset": 0, "length": 3}, {"type": "italic", "offset": 2, "length": 1}],
        ),
        (
            f"[a **b**]({SITE})",
            "a b",
            [
                {"type": "text_link", "offset": 0, "length": 3, "url": SITE},
                {"type": "bold", "offset": 2, "length": 1},
            ],
        ),
        ("```py\nx\n```", "x", [{"type": "pre", "offset": 0, "length": 1, "language": "py"}]),
        ("```\nx\n```", "x", [{"type": "pre", "offset": 0, "length": 1}]),
        ("`x`", "x", [{"type": "code", "offset": 0, "length": 1}]),
        ("<b>x</b> & @y", "<b>x</b> & @y", []),
    ],
)
def test_telegram_gets_text_and_entities(text: str, shown: str, entities: list[object]) -> None:
    (part,) = parts_of(Messenger.TELEGRAM, text)
    assert json.loads(part) == {"text": shown, "entities": entities}
    assert telegram.parse(part) == {"text": shown, **({"entities": entities} if entities else {})}


@each_case(
    "part", ["hello", "[1]", '{"text": 1, "entities": []}', '{"text": "x"}', '{"text": "x", "entities": [], "a": 1}']
)
def test_a_part_that_this_version_did_not_write_is_plain_text(part: str) -> None:
    assert telegram.parse(part) == {"text": part}


def test_more_entities_than_telegram_counts_are_left_out() -> None:
    (part,) = parts_of(Messenger.TELEGRAM, "*a* " * 150)
    assert len(telegram.parse(part)["entities"]) == telegram.MOST_ENTITIES


@each_case(
    ("text", "written"),
    [
        ("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`"),
        ("***a***", "*_a_*"),
        ("# Title\ntext", "*Title*\ntext"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("a & b < c", "a &amp; b &lt; c"),
        ("<!channel> <@U1> <#C1>", "&lt;!channel&gt; &lt;@U1&gt; &lt;#C1&gt;"),
        (f"[a > b]({SITE})", "<https://example.test/?a=1&amp;b=%7C|a &gt; b>"),
        ("[a](javascript:x)", "[a](javascript:x)"),
        ("```py\nx < y\n```\nz", "```\nx &lt; y\n```\nz"),
        ("1. a\n   ```\n   x\n   ```", "1. a\n```\nx\n```"),
        ("- a\n- b", "\u2022 a\n\u2022 b"),
        ("`` a`b ``", "`a\u02cbb`"),
        ("> q", "&gt; q"),
        ("`/approve`, `/approve session` or /deny", "`!approve`, `!approve session` or !deny"),
        ("POST /approve, see docs/deny", "POST /approve, see docs/deny"),
        ("a ```b", "a `\u200b`\u200b`b"),
        ("a\\``b`", "a`\u200b`b`"),
    ],
)
def test_slack_gets_mrkdwn_that_mentions_nobody(text: str, written: str) -> None:
    assert parts_of(Messenger.SLACK, text) == (written,)


@each_case(
    ("text", "written"),
    [
        ("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`"),
        ("a & b < c", "a & b < c"),
        (f"[here]({SITE})", f"here ({SITE})"),
        (f"<{SITE}>", SITE),
        ("```py\nx < y\n```\nz", "```\nx < y\n```\nz"),
        ("a ```b", "a `\u200b`\u200b`b"),
    ],
)
def test_whatsapp_gets_its_marks(text: str, written: str) -> None:
    assert parts_of(Messenger.WHATSAPP, text) == (written,)


@each_case(
    ("text", "written"),
    [
        ("**b** *i* ~~s~~ `c`", "**b** *i* ~~s~~ `c`"),
        ("***a***", "***a***"),
        ("**a*b***", "**a**\u200b***b***"),
        ("# Title\ntext", "**Title**\ntext"),
        ("a & b < c", "a & b \\< c"),
        ("<@1> <#2> @everyone", "\\<@1> \\<#2> @everyone"),
        ("2 \\* 3 snake_case", "2 \\* 3 snake\\_case"),
        (f"[a > b]({SITE})", f"[a > b](<{SITE.replace('|', '|')}>)"),
        (f"<{SITE}>", f"<{SITE}>"),
        ("```py\nx < y_z\n```\nz", "```py\nx < y_z\n```\nz"),
        ("~~~c++ title\nx\n~~~", "```c++\nc++ title\nx\n```"),
        ("~~~~```python\nx\n~~~~", "```\n`\u200b`\u200b`python\nx\n```"),
        ("- a\n- b", "\u2022 a\n\u2022 b"),
        ("`x_y < z`", "`x_y < z`"),
        ("\\# no title", "\\# no title"),
    ],
)
def test_discord_gets_markdown_that_shows_the_rest_as_it_is(text: str, written: str) -> None:
    assert parts_of(Messenger.DISCORD, text) == (written,)


@pytest.mark.parametrize("messenger", WRITINGS)
def test_white_space_is_no_part_and_lines_of_the_platform_have_no_styles(messenger: Messenger) -> None:
    assert parts_of(messenger, " \n\u200b\n".replace("\u200b", "")) == ()
    assert "*a*" in line_of(messenger, "*a*")[0].replace("\\", "")
