"""The files of the chat page, from the package: read once, so that no request names a path of this computer.

The page is written as browsers read it; nothing is built. Its modules refer to each other by relative addresses, so one
name of all their content, in front of their paths, lets browsers keep every file for good.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from gzip import compress
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' data: blob:; "
    "connect-src 'self'; "
    "form-action 'self'; "
    "frame-ancestors 'none'; "
    "base-uri 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""Nothing inline, nothing of others, no HTML from text."""

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Kinds of files that the page has, and no other: what a computer's own list says of a suffix differs."""

_ASSETS = '"assets/'
"""How the page's HTML names its files."""


@dataclass(frozen=True)
class PageFile:
    """A file of the page, held in memory while the process serves."""

    content: bytes = field(repr=False)
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        """The content as gzip, compressed at the first request for it."""
        return compress(self.content, mtime=0)


@dataclass(frozen=True)
class Pages:
    """The page and its assets, by their path behind ``assets/``, which begins with a name of all their content."""

    index: PageFile
    assets: Mapping[str, PageFile]

    @classmethod
    def load(cls) -> "Pages":
        """Read the files of this package's folder ``pages``."""
        folder = files("hermesops.api") / "pages"
        assets = dict(sorted(_files(folder / "assets", "")))
        digest = sha256()
        for path, file in assets.items():
            digest.update(f"{path}\0{len(file.content)}\0".encode() + file.content)
        name = digest.hexdigest()[:16]
        html = _with_modules((folder / "index.html").read_text(), assets).replace(_ASSETS, f"{_ASSETS}{name}/")
        index = PageFile(html.encode(), _MEDIA_TYPES[".html"])
        return cls(index, {f"{name}/{path}": file for path, file in assets.items()})


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{path}/")
        else:
            _, dot, suffix = entry.name.rpartition(".")
            yield path, PageFile(entry.read_bytes(), _MEDIA_TYPES[dot + suffix])


def _with_modules(html: str, assets: Mapping[str, PageFile]) -> str:
    """Name every module in the head: a browser fetches them at once, instead of one after the other as they name it."""
    links = [f'    <link rel="modulepreload" href={_ASSETS}{path}">\n' for path in assets if path.endswith(".js")]
    return html.replace("  </head>", "".join(links) + "  </head>")
