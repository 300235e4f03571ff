"""Reads the marks by which bots format texts, as the apps of messengers show them. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hermesops.localcloud.vendors.phone.chats import Span

MARKS: Mapping[str, str] = {"*": "bold", "_": "italic", "~": "strike"}
"""Of Slack and WhatsApp."""

_MARKED = re.compile(
    r"```(?:[a-z0-9+#-]*\n)?(?P<pre>.+?)\n?```"
    r"|`(?P<code>[^`\n]+)`"
    r"|(?<![\w\\])(?P<mark>\*\*|~~|[*_~])(?=\S)(?P<inner>[^\n]+?)(?<=\S)(?P=mark)(?![\w*~])"
    r"|<(?P<url>https?://[^|>\s]+)\|(?P<label>[^>]*)>"
    r"|(?<!\\)\[(?P<text>[^\]\n]+)\]\(<?(?P<address>https?://[^)>\s]+)>?\)"
    r"|\\(?P<escaped>[^\w\s])",
    re.DOTALL,
)


@dataclass
class _Shown:
    plain: Callable[[str], str]
    text: str = ""
    spans: list[Span] = field(default_factory=list)

    def add(self, written: str) -> None:
        self.text += self.plain(written)

    @property
    def units(self) -> int:
        return len(self.text.encode("utf-16-le")) // 2


def parse(written: str, marks: Mapping[str, str] = MARKS, plain: Callable[[str], str] = str) -> tuple[str, list[Span]]:
    """A text as the app shows it, and its formats.

    Args:
        marks: Kinds of formats by their marks.
        plain: Shows a stretch without marks, as without what is escaped in it.
    """
    shown = _Shown(plain)
    _take(written, marks, shown)
    return shown.text, shown.spans


def _take(written: str, marks: Mapping[str, str], shown: _Shown) -> None:
    at = 0
    for match in _MARKED.finditer(written):
        shown.add(written[at : match.start()])
        _take_match(match, marks, shown)
        at = match.end()
    shown.add(written[at:])


def _take_match(match: re.Match[str], marks: Mapping[str, str], shown: _Shown) -> None:
    start = shown.units
    if match["escaped"]:
        shown.add(match["escaped"])
        return
    kind, url = marks.get(match["mark"] or "", ""), match["url"] or match["address"] or ""
    if match["mark"] and not kind:
        shown.add(match[0])
        return
    if match["mark"]:
        _take(match["inner"], marks, shown)
    else:
        shown.add(match["pre"] or match["code"] or match["label"] or match["text"] or url)
    kind = kind or ("link" if url else "pre" if match["pre"] else "code")
    shown.spans.append(Span(start, shown.units - start, kind, url))
