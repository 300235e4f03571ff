"""Files that an operator names by SHA-256 and by where they are: paths or addresses, of which the first one counts."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from hermesops.base.network.http import blocking_client
from hermesops.errors import RefusedError, UnavailableError, UsageError

_MARK = "#sha256="
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_READ_S = 30.0
_TOTAL_S = 900.0
_MIB = 1 << 20


@dataclass(frozen=True)
class PinnedFile:
    """A file that is taken only with one content.

    Attributes:
        sources: Where it may be, in this order: paths, or https addresses.
    """

    sources: tuple[str, ...]
    sha256: str

    @classmethod
    def parse(cls, text: str, sha256: str = "") -> "PinnedFile":
        """A pinned file as operators spell it: ``SOURCE#sha256=…``, several separated by commas.

        Args:
            text: A path or address, or several.
            sha256: The file's hash, where ``text`` has none.

        Raises:
            UsageError: There is no hash, there are two, or an address is not https.
        """
        parts = [part.strip().partition(_MARK) for part in text.split(",") if part.strip()]
        hashes = {digest for _, _, digest in parts if digest} | ({sha256} if sha256 else set())
        if len(hashes) != 1 or not _SHA256.fullmatch(digest := next(iter(hashes))):
            raise UsageError(
                f"{text[:200]} is named with {len(hashes) or 'no'} SHA-256",
                hint="--sha256 and 64 digits, or SOURCE#sha256=…",
            )
        sources = tuple(source for source, _, _ in parts)
        for source in sources:
            if "://" in source and not source.startswith("https://"):
                raise UsageError(f"{source[:200]} is not an https address")
        return cls(sources, digest)

    @property
    def name(self) -> str:
        """Its file name, as its first source has it."""
        name = unquote(urlsplit(self.sources[0]).path if "://" in self.sources[0] else self.sources[0]).rsplit("/")[-1]
        return name if _NAME.fullmatch(name) else "archive"

    def read(self, *, at_most: int) -> bytes:
        """Its content, of at most so many bytes; the hash is the caller's to compare.

        Raises:
            RefusedError: A path cannot be read, or the file is larger.
            UnavailableError: No address answers.
        """
        problems = []
        for source in self.sources:
            try:
                return _fetched(source, at_most) if "://" in source else _local(Path(source), at_most)
            except UnavailableError as error:
                problems.append(error.message)
        raise UnavailableError("; ".join(problems))


def _local(path: Path, at_most: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(at_most + 1)
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}", hint=f"ls -l {path}") from error
    if len(content) > at_most:
        raise RefusedError(f"{path} has more than {at_most // _MIB} MiB")
    return content


def _fetched(url: str, at_most: int) -> bytes:
    until, content = time.monotonic() + _TOTAL_S, bytearray()
    where = urlsplit(url).hostname
    try:
        # Wherever it is sent on to, the file is known by its hash.
        with (
            blocking_client(timeout=_READ_S, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            for piece in _bounded(response.iter_raw(), until):
                content += piece
                if len(content) > at_most:
                    raise RefusedError(f"{url[:200]} has more than {at_most // _MIB} MiB")
    except (httpx.HTTPError, TimeoutError) as error:
        raise UnavailableError(f"{where} does not give {url[:200]}: {error or type(error).__name__}") from error
    return bytes(content)


def _bounded(pieces: Iterator[bytes], until: float) -> Iterator[bytes]:
    for piece in pieces:
        if time.monotonic() > until:
            raise TimeoutError(f"it takes more than {_TOTAL_S:g} s")
        yield piece
