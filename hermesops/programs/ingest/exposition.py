"""Prometheus's text exposition, as hermesops' own processes push it.

Source: prometheus.io/docs/instrumenting/exposition_formats, text format version 0.0.4.
"""

import re
from collections.abc import Iterator

from hermesops.programs.ingest.remote_write import MalformedError, RawSeries, encode_labels, encode_sample

_LABEL = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\\n]|\\.)*"\s*'
_LINE = re.compile(
    rf"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{{(?P<labels>(?:{_LABEL}(?:,{_LABEL})*,?)?\s*)\}})?"
    r"\s*(?P<value>\S+)(?:\s+(?P<at>-?[0-9]{1,15}))?\s*"
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n"}


def series_of(text: str, now_ms: int) -> Iterator[RawSeries]:
    """Parse an exposition into its series, in order; samples without a time get ``now_ms``.

    Raises:
        MalformedError: A line is no sample; the message has its number.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        try:
            value = float(match["value"]) if match else None
        except ValueError:
            value = None
        if match is None or value is None:
            raise MalformedError(f"line {number} is no sample")
        pairs = [(name, _ESCAPED.sub(_unescaped, quoted)) for name, quoted in _PAIR.findall(match["labels"] or "")]
        labels = [(name.encode(), content.encode()) for name, content in [("__name__", match["name"]), *pairs]]
        at = int(match["at"]) if match["at"] else now_ms
        yield RawSeries(encode_labels(labels), [(at, encode_sample(value, at))])


def _unescaped(match: "re.Match[str]") -> str:
    return _MEANT.get(match[1], match[1])
