"""Views that operators keep: pages with their filters by a name. Those of this computer's operator are in a file."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hermesops.base.files.private_file import replace_secret
from hermesops.errors import UsageError

MOST = 20
"""Links that are kept."""

_FILE = "console-links.json"
_LONGEST_NAME = 60
_LARGEST = 64 * 1024
"""Bytes of the file that are read."""

_PAGE = re.compile(r"([a-z][A-Za-z0-9/_-]{0,200})?(\?[A-Za-z0-9%=&+._~*-]{0,500})?")
"""A path below the console's, with its filters; no scheme and no host."""


class SavedLinks(Protocol):
    """Links of the operator of the present request."""

    def list(self) -> Sequence[tuple[str, str]]:
        """Name and page of each, in the order of the names; blocks."""

    async def add(self, name: str, page: str) -> None:
        """Keep a page by a name; one of that name is replaced.

        Raises:
            UsageError: The name or the page cannot be, or there are too many.
        """

    async def remove(self, name: str) -> None:
        """Forget a link; nothing happens where there is none of that name."""


def parse_name(text: str) -> str:
    """The name of a link, with single spaces.

    Raises:
        UsageError: It is empty, too long, or has invisible characters.
    """
    name = " ".join(text.split())
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"a name needs 1 to {_LONGEST_NAME} visible characters", field="name")
    return name


def parse_link(name: str, page: str) -> tuple[str, str]:
    """The name and the page of a link, as they are kept.

    Raises:
        UsageError: One of them cannot be.
    """
    name = parse_name(name)
    if not _PAGE.fullmatch(page):
        raise UsageError("only pages of the console can be saved", field="page")
    return name, page


@dataclass(frozen=True)
class LinksOfComputer:
    """The links of one environment, for the operator whose folder it is.

    Attributes:
        folder: Of the environment.
    """

    folder: Path

    def list(self) -> Sequence[tuple[str, str]]:
        """Name and page of each, in the order of the names; none where the file is missing or damaged."""
        return sorted(self._read().items())

    async def add(self, name: str, page: str) -> None:
        """Keep a page by a name, as ``SavedLinks.add``."""
        await asyncio.to_thread(self._add, *parse_link(name, page))

    async def remove(self, name: str) -> None:
        """Forget a link, as ``SavedLinks.remove``."""
        links = {other: page for other, page in self._read().items() if other != name}
        await asyncio.to_thread(self._write, links)

    def _add(self, name: str, page: str) -> None:
        links = {**self._read(), name: page}
        if len(links) > MOST:
            raise UsageError(f"at most {MOST} views can be saved; remove one first", field="name")
        self._write(links)

    def _read(self) -> Mapping[str, str]:
        try:
            with (self.folder / _FILE).open("rb") as file:
                links = json.loads(file.read(_LARGEST))
        except (OSError, ValueError):
            return {}
        pairs = links.items() if isinstance(links, dict) else ()
        whole = {
            name: page for name, page in pairs if name.isprintable() and isinstance(page, str) and _PAGE.fullmatch(page)
        }
        return dict(sorted(whole.items())[:MOST])

    def _write(self, links: Mapping[str, str]) -> None:
        replace_secret(self.folder / _FILE, json.dumps(links, sort_keys=True))
