"""Files for the toolbox: list, search, replace in, download, upload, move, change, delete. Bodies are streamed."""

import contextlib
import errno
import fnmatch
import grp
import itertools
import os
import pwd
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .http import ChunkedAnswer, HttpError, Request, boundary_of, first_part, head

_PROTECTED = frozenset(
    {"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin"}
    | {"/srv", "/sys", "/tmp", "/usr", "/var", "/usr/bin", "/usr/lib", "/usr/sbin", "/var/lib", "/etc/justavps"}  # noqa: S108
)
_MAX_DEPTH = 10
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_MAX_RESULTS = 1000
_LONGEST_LINE = 500
_LARGEST = 16 * 1024 * 1024
"""Bytes of a file beyond which it is skipped: it is hardly text."""


def path_of(value: object, key: str = "path") -> Path:
    """Check that a value is an absolute path, and normalise it."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise HttpError(400, "bad_request", f"{key} must be an absolute path")
    return Path(os.path.normpath(value))


def _flag(value: object, *, default: bool) -> bool:
    if value is None:
        return default
    return value is True or str(value).lower() in ("1", "true", "yes")


def mode_of(value: object, default: int) -> int:
    """Permission bits from an octal text."""
    if value is None or value == "":
        return default
    try:
        mode = int(str(value), 8)
    except ValueError as error:
        raise HttpError(400, "bad_request", "mode must be octal, as 644") from error
    if not 0 <= mode <= 0o7777:  # noqa: PLR2004 - all the permission bits there are
        raise HttpError(400, "bad_request", "mode must be octal, as 644")
    return mode


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into answers of the toolbox."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HttpError(404, "not_found", f"{path} does not exist") from error
    except FileExistsError as error:
        raise HttpError(409, "exists", f"{path} exists") from error
    except IsADirectoryError as error:
        raise HttpError(400, "is_directory", f"{path} is a directory") from error
    except PermissionError as error:
        raise HttpError(403, "forbidden", f"{path}: {error.strerror}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise HttpError(507, "disk_full", f"no space left for {path}") from error
        raise HttpError(400, "failed", f"{path}: {error.strerror}") from error


def name_of(look_up: Callable[[int], Sequence[object]], number: int) -> str:
    """The name of a user or group; its number if it has no name."""
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def describe(path: Path) -> dict[str, object]:
    """The toolbox's description of a path; a link is not followed."""
    status = path.lstat()
    return {
        "name": path.name,
        "path": str(path),
        "type": _kind(status.st_mode),
        "size": status.st_size,
        "mode": stat.filemode(status.st_mode),
        "mode_bits": f"{stat.S_IMODE(status.st_mode):o}",
        "owner": name_of(pwd.getpwuid, status.st_uid),
        "group": name_of(grp.getgrgid, status.st_gid),
        "mod_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime)),
        "symlink_target": os.readlink(path) if stat.S_ISLNK(status.st_mode) else None,  # noqa: PTH115 - the text, not a Path
    }


def _kind(mode: int) -> str:
    """The vendor knows folders and everything else; a link has a ``symlink_target`` besides."""
    return "dir" if stat.S_ISDIR(mode) else "file"


def listing(query: dict[str, str]) -> dict[str, object]:
    """The entries of a folder, ``depth`` levels deep (1 by default)."""
    path = path_of(query.get("path"))
    depth = min(_MAX_DEPTH, max(1, number(query.get("depth"), 1)))
    with translated(path):
        return {"path": str(path), "entries": list(_walk(path, depth))}


def number(text: str | None, default: int) -> int:
    """A decimal number from the query, or the default."""
    return int(text) if text and text.isdecimal() else default


def _walk(path: Path, depth: int) -> Iterator[dict[str, object]]:
    for name in sorted(os.listdir(path)):  # noqa: PTH208 - names only, the folder may be large
        child = path / name
        with contextlib.suppress(FileNotFoundError):
            entry = describe(child)
            yield entry
            if depth > 1 and entry["type"] == "dir":
                yield from _walk(child, depth - 1)


def info(query: dict[str, str]) -> dict[str, object]:
    """Describe one path of the query."""
    path = path_of(query.get("path"))
    with translated(path):
        return describe(path)


def exists(query: dict[str, str]) -> dict[str, object]:
    """Whether a path exists, a dangling link included."""
    path = path_of(query.get("path"))
    there = os.path.lexists(path)
    return {"path": str(path), "exists": there, "type": _kind(path.lstat().st_mode) if there else None}


def download(request: Request) -> None:
    """Send a file as it is; its length is promised, so a file that shrinks meanwhile breaks the connection."""
    path = path_of(request.query.get("path"))
    with translated(path):
        source = path.open("rb")
    with source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise HttpError(400, "not_a_file", f"{path} is not a regular file")
        if status.st_size == 0:
            data = source.read()  # files in /proc claim to be empty and are small
            fields = {"Content-Type": "application/octet-stream", "Content-Length": str(len(data))}
            request.connection.sendall(head(200, fields) + data)
            return
        fields = {"Content-Type": "application/octet-stream", "Content-Length": str(status.st_size)}
        request.connection.sendall(head(200, fields))
        if request.connection.sendfile(source, 0, status.st_size) < status.st_size:
            raise ConnectionError(path)


def upload(request: Request) -> dict[str, object]:
    """Write the body to a file, whole or not at all; parents are created."""
    path = path_of(request.query.get("path"))
    mode = mode_of(request.query.get("mode"), 0o644)
    overwrite = _flag(request.query.get("overwrite"), default=True)
    if not request.chunked and request.length is None:
        raise HttpError(411, "length_required", "send Content-Length or a chunked body")
    with translated(path):
        if path.is_dir():
            raise IsADirectoryError
        if not overwrite and os.path.lexists(path):
            raise FileExistsError
        path.parent.mkdir(parents=True, exist_ok=True)
        boundary = boundary_of(request.headers.get("content-type", ""))
        pieces = first_part(request.body(), boundary) if boundary else request.body()
        size = _write(path, pieces, mode, overwrite=overwrite)
    return {"path": str(path), "name": path.name, "type": "file", "size": size}


def rewrite(path: Path, data: bytes) -> None:
    """Replace a file's content, whole or not at all; mode and owner stay."""
    before = path.stat()
    _write(path, iter((data,)), stat.S_IMODE(before.st_mode), overwrite=True)
    os.chown(path, before.st_uid, before.st_gid)


def _write(path: Path, pieces: Iterator[bytes], mode: int, *, overwrite: bool) -> int:
    target = path.resolve() if overwrite and path.is_symlink() else path
    temporary = target.parent / f".upload-{os.urandom(8).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        with open(descriptor, "wb", buffering=0) as sink:  # noqa: PTH123 - a descriptor, not a path
            for piece in pieces:
                view = memoryview(piece)
                size += len(view)
                while view:
                    view = view[sink.write(view) :]
            os.fchmod(sink.fileno(), mode)
        if overwrite:
            temporary.replace(target)
        else:
            target.hardlink_to(temporary)  # refuses to replace, which a rename cannot
            temporary.unlink()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size


def folder(body: dict[str, object]) -> dict[str, object]:
    """Make a folder and its parents."""
    path = path_of(body.get("path"))
    mode = mode_of(body.get("mode"), 0o755)
    with translated(path):
        created = not path.is_dir()
        path.mkdir(parents=True, exist_ok=True)
        if created or body.get("mode") is not None:
            path.chmod(mode)
    return {"path": str(path), "created": created}


def move(body: dict[str, object]) -> dict[str, object]:
    """Rename, across file systems too; refuses an existing destination unless ``overwrite``."""
    source = path_of(body.get("source"), "source")
    destination = path_of(body.get("destination"), "destination")
    _refuse_protected(source)
    with translated(source):
        source.lstat()
    with translated(destination):
        if os.path.lexists(destination) and not _flag(body.get("overwrite"), default=False):
            raise FileExistsError
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(str(source), str(destination))
    return {"source": str(source), "destination": str(destination)}


def permissions(body: dict[str, object]) -> dict[str, object]:
    """Change mode, owner and group of one path, or of everything below it with ``recursive``.

    Answers with the permission bits as ``mode``, as the vendor does; ``info`` has them as ``mode_bits``.
    """
    path = path_of(body.get("path"))
    mode = body.get("mode")
    owner, group = body.get("owner"), body.get("group")
    below = [Path(top) / name for top, folders, names in os.walk(path) for name in folders + names]
    with translated(path):
        for each in [path, *(below if _flag(body.get("recursive"), default=False) else [])]:
            if mode is not None and not each.is_symlink():
                each.chmod(mode_of(mode, 0o644))
            if owner is not None or group is not None:
                _chown(each, owner, group)
        now = describe(path)
    return {"path": now["path"], "mode": now["mode_bits"], "owner": now["owner"], "group": now["group"]}


def _chown(path: Path, owner: object, group: object) -> None:
    try:
        uid = -1 if owner is None else int(str(owner)) if str(owner).isdecimal() else pwd.getpwnam(str(owner)).pw_uid
        gid = -1 if group is None else int(str(group)) if str(group).isdecimal() else grp.getgrnam(str(group)).gr_gid
    except KeyError as error:
        raise HttpError(404, "user_not_found", str(error.args[0])) from error
    os.chown(path, uid, gid, follow_symlinks=False)


def delete(query: dict[str, str]) -> dict[str, object]:
    """Delete a file or an empty folder; a full one with ``recursive``."""
    path = path_of(query.get("path"))
    _refuse_protected(path)
    with translated(path):
        if path.is_dir() and not path.is_symlink():
            if _flag(query.get("recursive"), default=False):
                shutil.rmtree(path)
            elif any(path.iterdir()):
                raise HttpError(400, "not_empty", f"{path} is not empty")
            else:
                path.rmdir()
        else:
            path.unlink()
    return {"deleted": True, "path": str(path)}


def _refuse_protected(path: Path) -> None:
    if str(path) in _PROTECTED:
        raise HttpError(403, "protected", f"{path} is protected")


def files_below(path: Path, include: str = "*") -> Iterator[Path]:
    """The regular files below a folder with a fitting name, in order; ``path`` itself if it is a file."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(fnmatch.filter(names, include)):
            file = Path(folder, name)
            if file.is_file() and not file.is_symlink():
                yield file


class _ZipSink:
    """The target of ``zipfile``: it cannot seek, so sizes follow each file."""

    def __init__(self, answer: ChunkedAnswer) -> None:
        self._answer = answer

    def write(self, data: bytes) -> int:
        self._answer.send(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: ``write`` has sent everything."""


def bulk_download(request: Request) -> None:
    """Send the files of ``paths``, and those below folders among them, under their own paths."""
    names = request.json().get("paths")
    if not isinstance(names, list) or not names:
        raise HttpError(400, "bad_request", "paths must be a list of paths")
    paths = [path_of(each, "paths") for each in names]
    for path in paths:
        with translated(path):
            path.stat()
    answer = ChunkedAnswer(request.connection, "application/zip")
    with zipfile.ZipFile(_ZipSink(answer), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for path in paths:
            for file in files_below(path):
                archive.write(file, str(file).lstrip("/"))
    answer.close()


def find(query: dict[str, str]) -> dict[str, object]:
    """Lines that match ``pattern`` in the files below ``path``; ``include`` narrows to files of such names.

    ``total`` counts the lines in the answer, not those that ``max_results`` kept out of it: so the vendor counts.
    """
    path = path_of(query.get("path"))
    pattern = _pattern(query.get("pattern"))
    include = query.get("include") or "*"
    limit = min(_MAX_RESULTS, max(1, number(query.get("max_results"), 100)))
    with translated(path):
        path.stat()
    hits = (
        {"file": str(file), "line": place, "content": line[:_LONGEST_LINE]}
        for file in files_below(path, include)
        for place, line in _lines(file)
        if pattern.search(line)
    )
    matches = list(itertools.islice(hits, limit))
    return {"matches": matches, "truncated": next(hits, None) is not None, "total": len(matches)}


def replace(body: dict[str, object]) -> dict[str, object]:
    """Replace matches of ``pattern`` in each of ``files``; each file whole or not at all."""
    files, value = body.get("files"), body.get("new_value")
    if not isinstance(files, list) or not isinstance(value, str):
        raise HttpError(400, "bad_request", "files must be a list and new_value a string")
    pattern = _pattern(body.get("pattern"))
    paths = [path_of(each, "files") for each in files]
    return {"results": [{"file": str(path), "replacements": _replace(path, pattern, value)} for path in paths]}


def _replace(path: Path, pattern: re.Pattern[str], value: str) -> int:
    with translated(path):
        before = path.read_bytes().decode("utf-8", "surrogateescape")
        try:
            after, count = pattern.subn(value, before)
        except (re.error, IndexError) as error:
            raise HttpError(400, "bad_request", f"new_value: {error}") from error
        if count:
            rewrite(path, after.encode("utf-8", "surrogateescape"))
    return count


def _pattern(text: object) -> re.Pattern[str]:
    if not isinstance(text, str) or not text:
        raise HttpError(400, "bad_request", "pattern is missing")
    try:
        return re.compile(text)
    except re.error as error:
        raise HttpError(400, "bad_request", f"pattern: {error}") from error


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        if file.stat().st_size > _LARGEST:
            return
        data = file.read_bytes()
    except OSError:  # gone meanwhile, or of the kernel's that cannot be read
        return
    if b"\0" not in data:
        yield from enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
