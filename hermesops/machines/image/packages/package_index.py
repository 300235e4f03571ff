"""Fetches single files of the package index that pip is set up for, without running anything in them.

pip itself builds metadata of a source archive that it downloads: it installs and runs the build system that the archive
names, whose hashes are not locked. Here only the file is wanted, so it is found in the index's own listing.

It must not know where an index is: pip's settings say so.
Source: PEP 503, PEP 691 and PEP 700 (the simple repository API); pip's ``config`` and ``download`` commands.
"""

import ast
import hashlib
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

import httpx
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from hermesops.base.network.http import ProxyFailedError, blocking_client
from hermesops.base.network.variables import OF_REQUESTS, NetworkVariables, Proxy, context_of, proxy_of
from hermesops.errors import RefusedError, UnavailableError
from hermesops.wire.strict_json import MalformedJSONError, parse

_PAGE_BYTES = 64 << 20
_FILE_BYTES = 1 << 30
_TOTAL_S = 900.0
_READ_S = 30.0
_PIP_S = 60.0

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
_PIN = re.compile(r"^\s*([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
_DEFAULT = re.compile(r"--index-url <url>.*?\(default\s+(https://\S+?)\)", re.DOTALL)
_SECTIONS = ("global", "download", ":env:")
"""Of pip's settings, each winning over those before it."""


@dataclass(frozen=True)
class Wanted:
    """One locked package.

    Attributes:
        hashes: SHA-256 of each file that may be taken for it.
    """

    name: str
    version: Version
    hashes: frozenset[str]

    @classmethod
    def read(cls, requirements: Path) -> "Wanted":
        """The only package that a file of requirements locks.

        Raises:
            RefusedError: It locks none, or several, or one without a hash.
        """
        text = requirements.read_text(encoding="utf-8")
        pins, hashes = _PIN.findall(text), frozenset(_HASH.findall(text))
        try:
            [(name, version)] = pins
            package = cls(canonicalize_name(name), Version(version), hashes)
        except (ValueError, InvalidVersion) as error:
            raise RefusedError(f"{requirements.name} locks no single package: {error}") from error
        if not hashes:
            raise RefusedError(f"{requirements.name} locks {name} to no hash")
        return package

    def is_named(self, file: str) -> bool:
        """Whether a file is called as its source archive is."""
        try:
            name, version = parse_sdist_filename(file)
        except InvalidSdistFilename:
            return False
        return name == self.name and version == self.version


@dataclass(frozen=True)
class Link:
    """A file that an index offers.

    Attributes:
        url: Of ``https``, ``http`` or ``file``; it may hold a password and is shown nowhere.
        sha256: As the index has it; empty where it says none.
    """

    name: str
    url: str
    sha256: str = ""


class PackageIndex:
    """The package index that pip is set up for.

    Args:
        environ: HOME, PATH, and what sets up pip, proxies and authorities.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def source(self, requirements: Path, folder: Path) -> Path:
        """Put the source archive that ``requirements`` locks into ``folder``; nothing in it is read, let alone run.

        Raises:
            RefusedError: The index offers another file under its name, or the requirements lock no single archive.
            UnavailableError: The index does not answer or lacks it.
        """
        package, settings = Wanted.read(requirements), self._settings()
        fetching = _Fetching(settings, until=time.monotonic() + _TOTAL_S)
        link = _choose(package, fetching.offered(self._places(settings), package))
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / link.name
        digest = fetching.to_file(link.url, target)
        if digest not in package.hashes:
            target.unlink()
            raise _other(package)
        return target

    def _places(self, settings: "_Settings") -> Iterator[tuple[str, bool]]:
        """Where links are, and whether the place has a page for each package: indexes have, lists of links have not."""
        for place in settings.many("find-links"):
            yield place, False
        if settings.one("no-index") not in {"1", "true", "True", "yes", "on"}:
            yield settings.one("index-url") or self._usual_index(), True
            for place in settings.many("extra-index-url"):
                yield place, True

    def _usual_index(self) -> str:
        """The default index of pip, from its own help."""
        match = _DEFAULT.search(self._pip("download", "--help"))
        if match is None:
            raise UnavailableError("pip does not say where it looks for packages", hint="set PIP_INDEX_URL")
        return match[1]

    def _settings(self) -> "_Settings":
        return _Settings(self._pip("config", "list"), self._environ)

    def _pip(self, *words: str) -> str:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", *words],
                env={**self._environ, "COLUMNS": "500"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PIP_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise UnavailableError(f"pip {words[0]} does not answer", hint="pip config list") from error
        return done.stdout


class _Settings:
    """pip's own settings, as ``pip config list`` prints them."""

    def __init__(self, printed: str, environ: Mapping[str, str]) -> None:
        lines = (line.partition("=") for line in printed.splitlines())
        self._values = {name.strip(): _text(value) for name, _, value in lines if value}
        self._environ = environ

    def one(self, key: str) -> str:
        """A setting; empty where there is none."""
        values = (self._values.get(f"{section}.{key}", "") for section in reversed(_SECTIONS))
        return next(filter(None, values), "").strip()

    def many(self, key: str) -> Sequence[str]:
        """A setting that is a list; of sections that have it only the last one counts."""
        return self.one(key).split()

    @property
    def proxy(self) -> Proxy | None:
        """Pip's own proxy; without it those of the environment count.

        Raises:
            UsageError: It is no URL of a proxy.
        """
        value = self.one("proxy")
        return proxy_of("pip's setting proxy", value) if value else None

    @property
    def netrc(self) -> Path | None:
        """A file of passwords by host, as pip takes them."""
        home = Path(self._environ.get("HOME", "/nonexistent"))
        file = Path(self._environ["NETRC"]) if "NETRC" in self._environ else home / ".netrc"
        return file if file.is_file() else None

    def tls(self) -> ssl.SSLContext:
        """Pip's own authorities, else the computer's and httpx's.

        Raises:
            UsageError: A setting or variable names authorities that cannot be used.
        """
        if own := self.one("cert"):
            return context_of("pip's setting cert", own)
        for name in OF_REQUESTS:
            if path := self._environ.get(name):
                return context_of(name, path)
        context = NetworkVariables(self._environ).tls_context()
        context.load_default_certs()
        return context


class _Fetching:
    """Asks places for links and files, all within one time limit."""

    def __init__(self, settings: _Settings, *, until: float) -> None:
        self._settings = settings
        self._until = until

    def offered(self, places: Iterable[tuple[str, bool]], package: Wanted) -> Iterator[Link]:
        """Every file of every place that answers.

        Raises:
            UnavailableError: None of them answers.
        """
        problems, answered = list[str](), False
        for place, is_index in places:
            try:
                yield from self._links(place, is_index=is_index, package=package.name)
                answered = True
            except UnavailableError as error:
                problems.append(error.message)
        if problems and not answered:
            raise UnavailableError(problems[0], hint="check the index pip is set up for: pip config list")

    def to_file(self, url: str, target: Path) -> str:
        """Download a file and return its SHA-256 in hex."""
        digest = hashlib.sha256()
        with target.open("wb") as sink, self._opened(url, largest=_FILE_BYTES) as (_, _, pieces):
            for piece in pieces:
                digest.update(piece)
                sink.write(piece)
        return digest.hexdigest()

    def _links(self, place: str, *, is_index: bool, package: str) -> Iterator[Link]:
        local = _local(place)
        if local is not None and is_index:
            local = local / package
        if local is not None and local.is_dir():
            yield from (Link(file.name, file.absolute().as_uri()) for file in local.iterdir() if file.is_file())
            return
        url = f"{place.rstrip('/')}/{package}/" if is_index else place if local is None else local.absolute().as_uri()
        with self._opened(url, largest=_PAGE_BYTES) as (address, kind, pieces):
            body = b"".join(pieces)
        yield from _read_page(body, kind, address, place)

    @contextmanager
    def _opened(self, url: str, *, largest: int) -> Iterator[tuple[str, str, Iterator[bytes]]]:
        """URL, content type and body of an answer."""
        local = _local(url)
        if local is not None:
            if not local.is_file():
                raise UnavailableError(f"pip's configured index {local} does not exist")
            with local.open("rb") as file:
                yield url, "text/html", iter(partial(file.read, 1 << 20), b"")
            return
        try:
            with self._client(url) as client, client.stream("GET", url) as response:
                if not response.is_success:
                    raise UnavailableError(f"the package index answers {response.status_code} for {_shown(url)}")
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                yield str(response.url), kind, self._pieces(response, largest)
        except ProxyFailedError as error:
            raise UnavailableError(f"no request was sent to the package index: {error}", hint=error.hint) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnavailableError(f"the package index does not answer: {type(error).__name__}") from error

    def _client(self, url: str) -> httpx.Client:
        netrc = None if urlsplit(url).username else self._settings.netrc
        return blocking_client(
            auth=httpx.NetRCAuth(str(netrc)) if netrc else None,
            verify=self._settings.tls,
            proxy=self._settings.proxy,
            timeout=_READ_S,
            follow_redirects=True,  # the file is known by its hash wherever it comes from; passwords stay at their host
            headers={"Accept": _ACCEPT, "Accept-Encoding": "identity"},
        )

    def _pieces(self, response: httpx.Response, largest: int) -> Iterator[bytes]:
        """The raw bytes as they come, at most ``largest`` and within the time limit."""
        received = 0
        for piece in response.iter_raw():
            received += len(piece)
            if received > largest or time.monotonic() > self._until:
                raise UnavailableError(f"the package index sends more than {largest} bytes, or takes too long")
            yield piece


class _Anchors(HTMLParser):
    """Collects the targets of links in an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the ``href`` of an anchor."""
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def _read_page(body: bytes, kind: str, url: str, place: str) -> Iterator[Link]:
    if kind == _JSON:
        yield from _read_json(body, url, place)
        return
    anchors = _Anchors()
    anchors.feed(body.decode(errors="replace"))
    for href in anchors.links:
        target, fragment = urldefrag(urljoin(url, href))
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        yield _link(target, place, unquote(urlsplit(target).path.rpartition("/")[2]), digest)


def _read_json(body: bytes, url: str, place: str) -> Iterator[Link]:
    try:
        listing: Any = parse(body, largest=_PAGE_BYTES)
        for file in listing["files"]:
            target, digest = urljoin(url, str(file["url"])), str(file["hashes"].get("sha256", ""))
            yield _link(target, place, str(file["filename"]), digest)
    except (MalformedJSONError, KeyError, TypeError, AttributeError) as error:
        raise UnavailableError("the package index answers something that is no listing") from error


def _link(url: str, place: str, name: str, digest: str) -> Link:
    """A link; on the host of the index it takes the index's password along, as pip does."""
    to, of = urlsplit(url), urlsplit(place)
    if of.username and not to.username and (to.scheme, to.hostname, to.port) == (of.scheme, of.hostname, of.port):
        url = to._replace(netloc=of.netloc).geturl()
    return Link(name, url, digest)


def _choose(package: Wanted, offered: Iterable[Link]) -> Link:
    """The archive that was locked: by its hash where the index says hashes, else by its name."""
    named = [link for link in offered if package.is_named(link.name)]
    for link in named:
        if link.sha256 in package.hashes:
            return link
    for link in named:
        if not link.sha256:
            return link
    if named:
        raise _other(package)
    raise UnavailableError(
        f"the package index has no source archive of {package.name}=={package.version}",
        hint="check the index pip is set up for: pip config list",
    )


def _other(package: Wanted) -> RefusedError:
    return RefusedError(
        f"the package index offers something else than {package.name}=={package.version} is locked to",
        hint="do not build from this index; compare it with another one",
    )


def _local(place: str) -> Path | None:
    """The path of a folder or file of this computer; none where it is a host's."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme in {"http", "https"} else Path(place)


def _shown(url: str) -> str:
    """A URL without its password and question."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def _text(printed: str) -> str:
    try:
        return str(ast.literal_eval(printed.strip()))
    except (SyntaxError, ValueError):
        return printed.strip()
