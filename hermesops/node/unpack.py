"""Makes a folder of an archive of an agent's state, and proves that it is the whole of it.

It runs as the agent's own user and reads a pipe. An archive without its last member was cut short, and one whose
content amounts to something else was changed: neither is put in place.
"""

import json
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from hermesops.node import contents
from hermesops.node.archive import BUFFER, DOCUMENT_BYTES, MANIFEST, VERSION, Packed, empty, look
from hermesops.node.errors import RefusedError


def unpack(source: BinaryIO, folder: Path) -> Packed:
    """Make a folder of a stream, and prove that it amounts to what was packed.

    Args:
        source: The stream.
        folder: Absent; what was begun is removed when this fails.

    Raises:
        RefusedError: The stream is no state, was cut short, or is not what was packed.
        OSError: There is no room.
    """
    empty(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        return _unpacked(source, folder)
    except BaseException:
        contents.remove(folder)
        raise


def _unpacked(source: BinaryIO, folder: Path) -> Packed:
    manifest: dict[str, Any] | None = None
    files = size = 0
    try:
        with tarfile.open(
            fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=BUFFER
        ) as archive:
            for member in archive:
                if manifest is not None:
                    raise RefusedError("the copy goes on after its end")
                if member.name == MANIFEST:
                    manifest = _manifest(archive, member)
                elif member.isdir():
                    (folder / _inside(member.name)).mkdir(mode=0o700, parents=True, exist_ok=True)
                elif member.isreg():
                    _write(archive, member, folder / _inside(member.name))
                    files, size = files + 1, size + member.size
                else:
                    raise RefusedError("the copy holds something else than files and folders")
    except (tarfile.TarError, EOFError) as error:
        raise RefusedError(f"what came is no copy of a state, or was cut short: {error}") from error
    while source.read(BUFFER):
        pass  # padding: whoever writes it shall be able to end
    if manifest is None:
        raise RefusedError("what came was cut short: its end is missing")
    state, _ = look(folder, is_alone=True)
    if state != manifest["state"] or files != manifest["files"]:
        raise RefusedError("what came is not what was copied")
    os.sync()
    return Packed(state, size, files, 0)


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
    file = archive.extractfile(member)
    try:
        manifest = json.loads(file.read(DOCUMENT_BYTES)) if file else None
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise RefusedError("the copy was made by a hermes-node that this one does not understand")
    return manifest


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise RefusedError("the copy holds a name that leads out of it")
    return path


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        content = archive.extractfile(member)
        if content is not None:
            shutil.copyfileobj(content, file, BUFFER)
        os.fchmod(file.fileno(), member.mode & 0o700)
        os.utime(file.fileno(), (member.mtime, member.mtime))
