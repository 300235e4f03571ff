"""Compares upstream's list of tags with an agent's version: which tags are newer, and what changes with each. Pure.

The list is hostile: it is bounded in size, number and characters, and nothing of it but names of tags is used.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from hermesops.errors import Hint, RefusedError
from hermesops.machines.capabilities.facts import Fact
from hermesops.machines.capabilities.lines import CAUTIONS, LINES, capabilities_of, changes, line_of
from hermesops.wire import strict_json

LARGEST = 4 << 20
"""Bytes of a list; GitHub's answer with a hundred tags has 60 KB."""

MOST = 5000
"""Tags of a list."""

ARCHIVE = "https://github.com/NousResearch/hermes-agent/archive/refs/tags/{tag}.tar.gz"

VERSION_OF_TAG: Mapping[str, str] = {
    "v2026.7.20": "0.19.0",
    "v2026.8.3": "0.20.0",
    "v2026.8.16": "0.20.2",
    "v2026.8.16.2": "0.20.3",
    "v2026.8.18": "0.20.4",
    "v2026.8.19": "0.20.5",
    "v2026.8.27": "0.20.6",
    "v2026.8.31": "0.21.0",
    "v2026.9.7": "0.21.1",
    "v2026.9.11": "0.21.2",
    "v2026.9.14": "0.21.3",
    "v2026.9.21": "0.21.4",
    "v2026.9.24": "0.21.5",
}
"""Versions of the packages in tags named by date, as upstream's issues and packagers have them."""

_BY_DATE = re.compile(r"v?(20\d\d)\.(\d{1,2})\.(\d{1,2})(?:\.(\d{1,3}))?", re.ASCII)
_BY_VERSION = re.compile(r"v?(\d{1,3}\.\d{1,3}\.\d{1,3})", re.ASCII)
_IN_TITLE = re.compile(r"(?<![\w.])v?(\d{1,3}\.\d{1,3}\.\d{1,3})(?![\w.])", re.ASCII)
_REF = re.compile(r"[0-9a-f]{40}\s+refs/tags/(\S+?)(\^\{\})?", re.ASCII)
_LINE = 512


@dataclass(frozen=True)
class Tag:
    """One tag of upstream's.

    Attributes:
        name: As upstream has it.
        version: Of the agent in it; empty where the list and the table do not say.
        date: Year, month, day and number of the day's tag; empty for a tag named by version.
    """

    name: str
    version: str
    date: tuple[int, ...]


@dataclass(frozen=True)
class Newer:
    """A tag that is newer than an agent.

    Attributes:
        caution: A known fault of that version; empty for none.
        is_known: Whether this hermesops knows the capabilities of its line.
        changes: Facts that differ from the compared version, with both values; none for an unknown line.
    """

    tag: Tag
    caution: str
    is_known: bool
    changes: tuple[tuple[Fact, str, str], ...]

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The commands that build, compare and roll out the release; none for an unknown line."""
        if not self.is_known:
            return ()
        return (
            ("release", "build", "--source", ARCHIVE.format(tag=self.tag.name), "--sha256", "SHA256"),
            ("release", "show", self.tag.version, "--against", "RELEASE"),
            ("rollout", "preview", self.tag.version, "--all"),
        )


@dataclass(frozen=True)
class Upstream:
    """The result of a comparison.

    Attributes:
        ours: The compared version.
        tags: Tags that were understood.
        skipped: Tags with names of another form, as of candidates and branches.
        newer: The newer ones, newest first.
    """

    ours: str
    tags: int
    skipped: int
    newer: tuple[Newer, ...]


def compare(ours: str, text: bytes) -> Upstream:
    """Compare upstream's tags with an agent's version.

    Args:
        ours: As its package names it.
        text: GitHub's answer for tags or releases, or one tag a line, as ``git ls-remote --tags`` prints it.

    Raises:
        RefusedError: It is no list of tags, is too large, or the compared version is of an unknown line.
    """
    capabilities_of(ours)
    named = tuple(_names(text))
    tags = {tag.name: tag for name, title in named if (tag := _tag(name, title))}
    skipped = len({name for name, _ in named} - tags.keys())
    newest = sorted((tag for tag in tags.values() if _is_newer(tag, ours)), key=_age, reverse=True)
    return Upstream(ours, len(tags), skipped, tuple(_newer(tag, ours) for tag in newest))


def _names(text: bytes) -> Iterator[tuple[str, str]]:
    """Names of tags, each with a title that may say the version."""
    if len(text) > LARGEST:
        raise _refusal(f"larger than {LARGEST >> 20} MiB")
    if text.lstrip()[:1] in {b"[", b"{"}:
        yield from _of_json(text)
        return
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError:
        raise _refusal("not UTF-8") from None
    names = [line.strip() for line in lines if line.strip()]
    if len(names) > MOST or any(len(name) > _LINE for name in names):
        raise _refusal(f"more than {MOST} tags, or a line above {_LINE} characters")
    for name in names:
        ref = _REF.fullmatch(name)
        yield (ref[1] if ref else name), ""


def _of_json(text: bytes) -> Iterator[tuple[str, str]]:
    try:
        parsed = strict_json.parse(text, largest=LARGEST)
    except strict_json.MalformedJSONError as error:
        raise _refusal(str(error)) from None
    if not isinstance(parsed, list):
        raise _refusal("an object where a list is expected")
    if len(parsed) > MOST:
        raise _refusal(f"more than {MOST} tags")
    for item in parsed:
        yield _of_item(item)


def _of_item(item: Any) -> tuple[str, str]:  # noqa: ANN401 - JSON
    if isinstance(item, str):
        return item, ""
    if isinstance(item, dict):
        name, title = item.get("tag_name", item.get("name")), item.get("name", "")
        if isinstance(name, str):
            return name, title if isinstance(title, str) else ""
    raise _refusal("an entry without the name of a tag")


def _tag(name: str, title: str) -> Tag | None:
    if (match := _BY_VERSION.fullmatch(name)) and not match[1].startswith("20"):
        return Tag(name, match[1], ())
    if match := _BY_DATE.fullmatch(name):
        date = tuple(int(part or 0) for part in match.groups())
        versions = [version for version in _IN_TITLE.findall(title[:_LINE]) if not version.startswith("20")]
        return Tag(name, versions[0] if len(versions) == 1 else VERSION_OF_TAG.get(name, ""), date)
    return None


def _is_newer(tag: Tag, ours: str) -> bool:
    if tag.version:
        return Version(tag.version) > Version(ours)
    own = [_date(name) for name, version in VERSION_OF_TAG.items() if Version(version) <= Version(ours)]
    return bool(own) and tag.date > max(own)


def _age(tag: Tag) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tag.date or _dated(tag.version), Version(tag.version or "0").release


def _dated(version: str) -> tuple[int, ...]:
    """The date of a tag named by version, where its version's is known."""
    return next((_date(name) for name, known in VERSION_OF_TAG.items() if known == version), ())


def _date(name: str) -> tuple[int, ...]:
    match = _BY_DATE.fullmatch(name)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def _newer(tag: Tag, ours: str) -> Newer:
    if not tag.version or line_of(tag.version) not in LINES:
        return Newer(tag, "", is_known=False, changes=())
    return Newer(tag, CAUTIONS.get(tag.version, ""), is_known=True, changes=changes(ours, tag.version))


def _refusal(why: str) -> RefusedError:
    return RefusedError(
        f"this is no list of upstream's tags: {why}",
        hint=Hint(
            "give GitHub's answer for /repos/NousResearch/hermes-agent/tags?per_page=100, or one tag a line;",
            ("release", "check-upstream", "--help"),
        ),
    )
