"""The files of the chat page, from the package: read once, so that no request names a path of this computer."""

import re
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type

_HASHED = re.compile(r"[.-][A-Za-z0-9_-]{8,}\.[a-z0-9]+$")
"""Ends of names that change with their content."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)
"""Nothing inline, nothing of others, no HTML from text."""


@dataclass(frozen=True)
class PageFile:
    """A file of the page."""

    content: bytes = field(repr=False)
    media_type: str
    is_lasting: bool


@dataclass(frozen=True)
class Pages:
    """The page and its assets, by name."""

    index: PageFile
    assets: dict[str, PageFile]

    @classmethod
    def load(cls) -> "Pages":
        """Read the files of this package's folder ``pages``."""
        folder = files("hermesops.api") / "pages"
        assets = folder / "assets"
        index = PageFile((folder / "index.html").read_bytes(), "text/html; charset=utf-8", is_lasting=False)
        return cls(index, {file.name: _file(file) for file in assets.iterdir()} if assets.is_dir() else {})


def _file(file: Traversable) -> PageFile:
    media_type = guess_type(file.name)[0] or "application/octet-stream"
    if media_type.startswith("text/"):
        media_type += "; charset=utf-8"
    return PageFile(file.read_bytes(), media_type, is_lasting=_HASHED.search(file.name) is not None)
