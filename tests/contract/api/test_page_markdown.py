"""The page's Markdown in a real Chromium: read as the reference does, the same however it arrives, and never stuck."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt
from playwright.async_api import Page

from hermesops.api.pages_served import CONTENT_SECURITY_POLICY, Pages
from tests.support.pages.browser import chromium, watched_page
from tests.support.pages.cutting_proxy import cutting_proxy
from tests.support.suite.cases import each_case

pytestmark = pytest.mark.xdist_group("chat page")

_SHAPES = """() => {
window.shapeOf = (node) => {
    const shape = [];
    const walk = (parent) => {
        for (const child of parent.childNodes) {
            if (child.nodeType === Node.TEXT_NODE) shape.push(child.data.replace(/\\s+/g, " ").trim());
            else if (child.matches("pre, figure")) {
                shape.push(`<pre>${(child.querySelector("code") ?? child).textContent.replace(/\\n$/, "")}`);
            } else if (child.matches("div")) walk(child);
            else {
                const start = child.start > 1 ? child.start : "";
                shape.push(`<${child.localName.replace(/^h[1-6]$/, "h")}${child.href ?? ""}${start}>`);
                walk(child);
                shape.push("</>");
            }
        }
    };
    node.normalize();
    walk(node);
    return shape.filter(Boolean).join("|");
};
window.boxed = () => {
    const box = document.createElement("div");
    document.body.append(box);
    return box;
};
window.shownIn = (box) => new Promise((resolve) => {
    const watch = new MutationObserver(() => resolve(watch.disconnect()));
    watch.observe(box, {childList: true, subtree: true});
    setTimeout(resolve, 500); // a piece may change nothing
});
window.shown = (text) => {
    const box = boxed();
    new MarkdownStream(box).finish(text);
    const shape = shapeOf(box);
    box.remove();
    return shape;
};
window.streamed = async (pieces) => {
    const box = boxed();
    const stream = new MarkdownStream(box);
    for (const piece of pieces) {
        stream.append(piece);
        await shownIn(box);
    }
    stream.finish();
    const shape = shapeOf(box);
    box.remove();
    return shape;
};
}"""

_NAMES = {"s": "del"} | {f"h{level}": "h" for level in range(1, 7)}
"""Elements of the reference that the page has under another name."""

_PARTS = (
    "plain words", "*one*", "**two**", "***three***", "~~gone~~", "`code`", "``a ` b``", "a_b_c", "_x_y_", "2 * 3 * 4",
    "[link](https://a.example/b)", '[titled](https://a.example "t")', "[*in* link](https://a.example/x(y))",
    "[no link]", "<https://auto.example/>", "&lt;b&gt; &amp; &#42;",
    "\\*escaped\\*", "a  \nb", "a\\\nb", "<b>html</b>", "![", "](",
    "**a*",
    "*a **b** c*", "**a *b* c**", "***a** b*", "*(a*b)*", "“*q*”", "x*y*z", "[a *b](https://a.example) c*",
)  # fmt: skip
_BLOCKS = (
    "# {}", "### {} ###", "{}\n===", "{}\n---", "{}\n{}", "- {}\n- {}", "- {}\n\n- {}", "* {}\n  {}\n* {}",
    "1. {}\n2. {}",
    "7) {}\n8) {}", "- {}\n  - {}\n    - {}", "- {}\n\n  {}\n- {}", "1. {}\n   - {}\n   - {}", "> {}\n> {}", "> {}\n{}",
    "> - {}\n> - {}", "> > {}\n> {}", "```\n{}\n```", "~~~py\n{}\n\n{}\n~~~", "    {}", "- ```\n  {}\n  ```", "***",
    "| {} | b |\n|:--|--:|\n| {} | x \\| y |\n| c |", "a | b\n- | -\n{} | {}", "- {}\n{}", "-\n  {}", "1986\\. {}",
    "{}\n- {}", "{}\n2. {}", "{}\n> {}", "- {}\n***\n- {}", "+ {}\n- {}", "\t{}", "   - {}",
)  # fmt: skip


class Shape(HTMLParser):
    """The reference's HTML in the shape of ``shapeOf``: the page's rules let no browser parse it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._text: list[str] = []
        self._code: int | None = None
        self.feed(html)
        self._end_text()

    def __str__(self) -> str:
        return "|".join(filter(None, self._parts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_text()
        if tag == "pre":
            self._code = len(self._parts)
        elif self._code is None:
            given = dict(attrs)
            start = given.get("start") or ""
            name = _NAMES.get(tag, tag)
            self._parts.append(f"<{name}{_as_opened(given.get('href') or '')}{start}>")
            if tag in {"br", "hr"}:
                self._parts.append("</>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._parts.append(f"<pre>{''.join(self._text).removesuffix(chr(10))}")
            self._text, self._code = [], None
        elif self._code is None:
            self._end_text()
            self._parts.append("</>")

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def _end_text(self) -> None:
        if self._code is None:
            self._parts.append(re.sub(r"\s+", " ", "".join(self._text)).strip())
            self._text = []


def _as_opened(address: str) -> str:
    return f"{address}/" if re.fullmatch(r"https://[^/]+", address) else address


def documents(seed: int, count: int) -> Sequence[str]:
    """Documents of everything that agents write, mixed at random."""
    chance = random.Random(seed)  # noqa: S311 - of test documents
    names = []
    for _ in range(count):
        blocks = [chance.choice(_BLOCKS) for _ in range(chance.randint(1, 5))]
        filled = [block.replace("{}", "\0") for block in blocks]
        text = chance.choice(["\n\n", "\n\n", "\n"]).join(filled)
        while "\0" in text:
            parts = " ".join(chance.choice(_PARTS) for _ in range(chance.randint(1, 3)))
            text = text.replace("\0", parts.replace("|", "\\|"), 1)
        names.append(text)
    return names


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
    file = Pages.load().assets.get(path.removeprefix("/assets/"))
    content, kind = (file.content, file.media_type) if file else (b"<!doctype html><title>t</title>", "text/html")
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-security-policy: {CONTENT_SECURITY_POLICY}\r\n"
    writer.write(f"{head}content-length: {len(content)}\r\nconnection: close\r\n\r\n".encode() + content)
    writer.close()


@pytest.fixture(scope="module")
async def page() -> AsyncIterator[Page]:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    module = next(path for path in Pages.load().assets if path.endswith("markdown/stream.js"))
    async with chromium() as browser, cutting_proxy() as proxy, watched_page(browser, proxy) as watched:
        await watched.page.goto(url)
        await watched.page.evaluate(f"import('/assets/{module}').then((all) => Object.assign(window, all))")
        await watched.page.evaluate(_SHAPES)
        yield watched.page
        assert watched.violations == []
        assert watched.errors == []
        assert proxy.foreign() == []
    server.close()


async def test_it_is_read_as_the_reference_reads_it(page: Page) -> None:
    reference = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for text in documents(85, 400):
        assert await page.evaluate("shown", text) == str(Shape(reference.render(text))), text


@pytest.mark.turns(4)
async def test_it_looks_the_same_however_it_arrives(page: Page) -> None:
    chance = random.Random(86)  # noqa: S311 - of test documents
    for text in documents(86, 25):
        cuts = sorted(chance.sample(range(len(text)), min(8, len(text) - 1)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert await page.evaluate("streamed", pieces) == await page.evaluate("shown", text), pieces


@each_case(
    "pieces", [["text\n#", "hashtag"], ["text\n***", "bold***"], ["| a |\n|-|\n| 1 |\n#", "2 |"], ["a\n- - -", " b"]]
)
@pytest.mark.turns(2)
async def test_a_line_without_its_end_may_still_belong_to_the_block_before(page: Page, pieces: list[str]) -> None:
    assert await page.evaluate("streamed", pieces) == await page.evaluate("shown", "".join(pieces))


@pytest.mark.turns(3)
async def test_a_megabyte_is_shown_whole_and_formatted_in_part(page: Page) -> None:
    line = "- **bold** and [link](https://a.example) " + "x" * 60 + "\n\n"
    answer: dict[str, Any] = await page.evaluate(
        """(text) => {
            const box = boxed();
            new MarkdownStream(box).finish(text);
            const answer = {length: box.textContent.length, elements: box.querySelectorAll("*").length,
                            end: box.textContent.trimEnd().slice(-5)};
            box.remove();
            return answer;
        }""",
        line * 10_000 + "- end",
    )
    assert answer["length"] > 800_000
    assert answer["end"] == "- end"
    assert answer["elements"] < 30_000


HOSTILE = {
    "quotes": ">" * 100_000,
    "emphasis": "*a " * 60_000,
    "nested emphasis": "**" * 40_000 + "a" + "**" * 40_000,
    "brackets": "[" * 100_000 + "]" * 100_000,
    "links": "[](" * 60_000,
    "images": "![a](" * 40_000,
    "ticks": "".join("`" * (number % 300 + 1) + "x" for number in range(1300)),
    "lists": "- " * 90_000 + "a",
    "items": "- a\n" * 20_000,
    "columns": "|" * 90_000 + "\n" + "|-" * 90_000,
    "rows": "|" * 55 + "\n" + "|-" * 55 + "\n" + "x\n" * 80_000,
    "struck": "~~a" * 60_000,
    "spaces": "a" + " " * 190_000 + "b\nc",
    "rule": "- " * 90_000 + "\n" + "* * " * 40_000 + "x",
    "addresses": "<http://" * 25_000,
    "underlines": "_a" * 90_000,
}


@pytest.mark.turns(5)
async def test_no_text_stops_the_page(page: Page) -> None:
    """Each takes a fraction of a second; quadratic work on any of them would take minutes, and the test its time."""
    for name, text in HOSTILE.items():
        async with asyncio.timeout(30):
            assert await page.evaluate("(text) => shown(text).length", text) > 0, name
