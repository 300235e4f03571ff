"""Files that an operator names by SHA-256 and by their places: paths or addresses, in the order of their use."""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from hermesops.base.network import web_address
from hermesops.base.network.http import blocking_client
from hermesops.errors import HermesError, RefusedError, UnavailableError, UsageError
from hermesops.machines.release.source.archive import refuse_changed

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
            UsageError: There is no hash, there are two, or an address is not https or has a password.
        """
        parts = [part.strip().partition(_MARK) for part in text.split(",") if part.strip()]
        hashes = {digest for _, _, digest in parts if digest} | ({sha256} if sha256 else set())
        if len(hashes) != 1 or not _SHA256.fullmatch(digest := next(iter(hashes))):
            raise UsageError(
                f"{', '.join(_shown(source) for source, _, _ in parts)} is named with {len(hashes) or 'no'} SHA-256",
                hint="--sha256 and 64 digits, or SOURCE#sha256=…",
            )
        sources = tuple(source for source, _, _ in parts)
        for source in sources:
            if web_address.has_user_info(source):
                raise UsageError("an address has a user or a password before its host", hint="addresses are shown")
            if _is_address(source) and not source.startswith("https://"):
                raise UsageError(f"{_shown(source)} is not an https address")
        return cls(sources, digest)

    @staticmethod
    def is_named(text: str, sha256: str) -> bool:
        """Whether a text names a file by its hash, or is an address."""
        return bool(sha256) or _MARK in text or _is_address(text)

    @classmethod
    def chosen(cls, named: str, setting: str) -> "PinnedFile | None":
        """The file that an operator named, else the one of a setting; ``None`` for neither, and for ``none``.

        Raises:
            UsageError: See ``parse``.
        """
        text = named or setting
        return cls.parse(text) if text not in {"", "none"} else None

    @classmethod
    def of_content(cls, text: str, sha256: str, title: str) -> "PinnedFile":
        """A file whose content is known already, wherever an operator says that it is.

        Args:
            text: As for ``parse``; a hash in it is compared.
            title: What it is, for messages.

        Raises:
            UsageError: The hash in it is another one, or an address is not https or has a password.
        """
        pin = cls.parse(text) if _MARK in text else cls.parse(text, sha256)
        if pin.sha256 != sha256:
            raise UsageError(f"{title} has SHA-256 {sha256}, and {pin.name} is named with {pin.sha256}")
        return pin

    @property
    def name(self) -> str:
        """Its file name, as its first source has it."""
        first = self.sources[0]
        name = unquote(urlsplit(first).path if _is_address(first) else first).rsplit("/")[-1]
        return name if _NAME.fullmatch(name) else "archive"

    def read(self, *, at_most: int, report: Callable[[str], None] = lambda _: None) -> bytes:
        """Its content, of at most so many bytes, from the first source that has it.

        A source that does not answer, or has another content, is reported, and the next one is asked.

        Raises:
            RefusedError: No source has it, and one has another content, cannot be read or has a larger file.
            UnavailableError: No source answers.
        """
        failures: list[HermesError] = []
        for number, source in enumerate(self.sources, 1):
            try:
                content = _fetched(source, at_most) if _is_address(source) else _local(Path(source), at_most)
                refuse_changed(_shown(source), content, self.sha256)
            except (UnavailableError, RefusedError) as error:
                failures.append(error)
                if number < len(self.sources):
                    report(f"{error.message}; trying {_shown(self.sources[number])}")
            else:
                return content
        raise _all_failed(failures)


def _all_failed(failures: Sequence[HermesError]) -> HermesError:
    """One error for all sources; to ask again helps only where none of them had a wrong file."""
    if len(failures) == 1:
        return failures[0]
    problem = "; ".join(failure.message for failure in failures)
    wrong = next((failure for failure in failures if isinstance(failure, RefusedError)), None)
    return RefusedError(problem, hint=wrong.hint) if wrong else UnavailableError(problem)


def _is_address(source: str) -> bool:
    return "://" in source


def _shown(source: str) -> str:
    """A source for messages: without its query, which may have a signature that opens it."""
    return source.partition("?")[0][:200] if _is_address(source) else source[:200]


def _local(path: Path, at_most: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(at_most + 1)
    except OSError as error:
        program = shutil.which(path.name) if path.name == str(path) else None
        if program:
            raise RefusedError(
                f"{path} is a program of this computer, {program}, and no file here", hint="name an archive by its path"
            ) from error
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
                    raise RefusedError(f"{_shown(url)} has more than {at_most // _MIB} MiB")
    except httpx.HTTPStatusError as error:
        raise UnavailableError(f"{where} answers {_shown(url)} with {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise UnavailableError(f"{where} does not give {_shown(url)}: {error or type(error).__name__}") from error
    return bytes(content)


def _bounded(pieces: Iterator[bytes], until: float) -> Iterator[bytes]:
    for piece in pieces:
        if time.monotonic() > until:
            raise TimeoutError(f"it takes more than {_TOTAL_S:g} s")
        yield piece
