"""Reads a tag's archive into memory: a tar.gz or zip of a git tree, checked before any byte of it is used.

An archive is a stranger's until its hash was compared, and what it holds stays a stranger's: it is written to no disk.
"""

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermesops.errors import RefusedError

_MIB = 1 << 20
MAX_ARCHIVE = 256 * _MIB
_MAX_TREE = 768 * _MIB
_MAX_FILE = 128 * _MIB
_MAX_FILES = 100_000
_MAX_NAME = 512


@dataclass(frozen=True)
class SourceFile:
    """A file of a source tree."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class SourceTree:
    """A source tree.

    Attributes:
        name: Name of its archive.
        sha256: SHA-256 of its archive.
        top: The archive's only folder.
        files: By path below that.
        links: Paths of symbolic links, which are left out.
    """

    name: str
    sha256: str
    top: str
    files: Mapping[str, SourceFile]
    links: tuple[str, ...] = ()

    def text(self, path: str) -> str:
        """A text file of the tree.

        Raises:
            RefusedError: The tree has no such file, or it is no text.
        """
        if path not in self.files:
            raise RefusedError(f"{self.name} has no {path} at its top", hint="name the archive of a tag's whole tree")
        try:
            return self.files[path].content.decode()
        except UnicodeDecodeError as error:
            raise RefusedError(f"{path} of {self.name} is no text: {error}") from error


def read_tree(name: str, content: bytes, sha256: str) -> SourceTree:
    """The files of an archive of one git tree, below its only top folder.

    Raises:
        RefusedError: The archive has another hash, is damaged or too large, or has an entry that no git tree has: an
            absolute path, a path that leaves the tree, a link that leads out of it, a device.
    """
    refuse_changed(name, content, sha256)
    files: dict[str, SourceFile] = {}
    links: list[str] = []
    size, tops = 0, set()
    for entry in _entries(name, content):
        tops.add(entry.top)
        if len(tops) > 1:
            raise RefusedError(f"{name} has more than one folder at its top", hint="name the archive of one git tree")
        if entry.path in files or entry.path in links:
            raise RefusedError(f"{name} has {entry.path} twice")
        if entry.links_to is not None:
            links.append(entry.path)
            continue
        size += len(entry.content)
        if size > _MAX_TREE or len(files) + len(links) >= _MAX_FILES:
            raise RefusedError(f"{name} has more than {_MAX_TREE // _MIB} MiB or {_MAX_FILES} files")
        files[entry.path] = SourceFile(entry.content, entry.executable)
    if not files:
        raise RefusedError(f"{name} holds no files", hint="name the archive of a tag's whole tree")
    return SourceTree(name, sha256, tops.pop(), files, tuple(sorted(links)))


def refuse_changed(name: str, content: bytes, sha256: str) -> None:
    """Refuse a file with another content than was named.

    Raises:
        RefusedError: The file has another hash.
    """
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise RefusedError(
            f"{name} is not the named file: its SHA-256 is {digest}, not {sha256}",
            hint="compare the hash with another copy of the archive; do not take it from where the archive is",
        )


@dataclass(frozen=True)
class _Entry:
    top: str
    path: str
    content: bytes = b""
    executable: bool = False
    links_to: str | None = None


def _entries(name: str, content: bytes) -> Iterator[_Entry]:
    try:
        if zipfile.is_zipfile(io.BytesIO(content)) and content[:2] == b"PK":
            yield from _of_zip(name, content)
        else:
            yield from _of_tar(name, unzipped(name, content, at_most=_MAX_TREE + _MAX_FILES * 1024))
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise RefusedError(f"{name} is no whole tar.gz or zip: {error}", hint="fetch the archive again") from error


def unzipped(name: str, content: bytes, *, at_most: int) -> bytes:
    """The content of a gzip file of at most so many bytes.

    Raises:
        RefusedError: The file holds more.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        plain = packed.read(at_most + 1)
    if len(plain) > at_most:
        raise RefusedError(f"{name} unpacks to more than {at_most // _MIB} MiB")
    return plain


def _of_tar(name: str, plain: bytes) -> Iterator[_Entry]:
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for member in archive:
            top, path = _below_top(name, member.name)
            if member.isdir() or not path:
                continue
            if member.issym():
                yield _Entry(top, path, links_to=_inner(name, path, member.linkname))
                continue
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None:
                raise RefusedError(f"{name} has {shown(path)}, which is no file, folder or symbolic link")
            _refuse_huge(name, path, member.size)
            yield _Entry(top, path, stream.read(), bool(member.mode & 0o100))


def _of_zip(name: str, content: bytes) -> Iterator[_Entry]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            (top, path), mode = _below_top(name, info.filename), info.external_attr >> 16
            if info.is_dir() or not path:
                continue
            _refuse_huge(name, path, info.file_size)
            with archive.open(info) as stream:
                data = stream.read(_MAX_FILE + 1)
            _refuse_huge(name, path, len(data))
            if stat.S_ISLNK(mode):
                yield _Entry(top, path, links_to=_inner(name, path, data.decode()))
            elif stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
                raise RefusedError(f"{name} has {shown(path)}, which is no file, folder or symbolic link")
            else:
                yield _Entry(top, path, data, bool(mode & 0o100))


def _below_top(name: str, path: str) -> tuple[str, str]:
    """The top folder of a path in an archive, and the path below it, which is empty for the folder itself."""
    parts = path.removesuffix("/").split("/")
    is_bad = path.startswith("/") or "\\" in path or not path.isprintable() or len(path) > _MAX_NAME
    if is_bad or any(part in {"", ".", ".."} for part in parts):
        raise RefusedError(f"{name} has a path that leads out of it, or is none: {shown(path)}")
    return parts[0], "/".join(parts[1:])


def _inner(name: str, path: str, target: str) -> str:
    """The target of a link that stays in its tree."""
    depth = path.count("/")
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0 or target.startswith("/"):
            raise RefusedError(f"{name} has a link that leads out of it: {shown(path)} -> {shown(target)}")
    return target


def _refuse_huge(name: str, path: str, size: int) -> None:
    if size > _MAX_FILE:
        raise RefusedError(f"{shown(path)} of {name} has more than {_MAX_FILE // _MIB} MiB")


def shown(text: str) -> str:
    """A stranger's text as a message may show it: printable, and not long."""
    return repr(text[:100])[1:-1]
