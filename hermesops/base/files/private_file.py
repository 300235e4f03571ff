"""Small files that hold a secret: made with mode 0600 in one step, read only where others may not read them."""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from hermesops.base.files.disk import sync_folder, writing
from hermesops.errors import RefusedError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 20
_DRAFT_BYTES = 6
"""Random bytes in the name of a draft."""


def refuse_readable_by_others(descriptor: int, path: Path, *, what: str) -> None:
    """Go on only where nobody but its owner may read or write an open file.

    Args:
        descriptor: Of the file, so that no other one is looked at than the one that is read.
        what: What it holds, as it should read after "the".

    Raises:
        RefusedError: Others may.
    """
    if os.fstat(descriptor).st_mode & _OTHERS:
        raise RefusedError(f"the {what} in {path} may be read by others", hint=f"chmod 600 {path}")


def read_secret(path: Path, *, what: str) -> str:
    """The text of a file that holds a secret, without white space around it.

    Args:
        what: What it holds, as it should read after "the".

    Raises:
        RefusedError: It is missing, empty, unreadable, or readable by others than its owner.
    """
    put_it_back = f"put it back at {path} (mode 0600)"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise RefusedError(f"the {what} is missing: no file {path}", hint=put_it_back) from error
    except OSError as error:
        raise RefusedError(f"the {what} cannot be read from {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        refuse_readable_by_others(descriptor, path, what=what)
        try:
            text = file.read(_LARGEST).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RefusedError(f"the {what} in {path} is not text") from error
    if not text:
        raise RefusedError(f"the {what} in {path} is empty", hint=put_it_back)
    return text


def make_secret(path: Path, text: str) -> bool:
    """Write a secret file that is not there yet, whole or not at all; its folder is made too.

    Where there is one, nothing in the folder changes, not for a moment either: units that read it are restarted once it
    has changed.

    Returns:
        Whether it was written; ``False`` when there was one, which stays as it is.
    """
    if os.path.lexists(path):
        return False
    with _drafted(path, text) as draft:
        try:
            os.link(draft, path)  # unlike a rename it never replaces: of two processes, one wins
        except FileExistsError:
            return False
    sync_folder(path.parent)  # what a key sealed is soon on the disk, and worth nothing without the key
    return True


def replace_secret(path: Path, text: str) -> None:
    """Write a secret file anew, whole or not at all; its folder is made too."""
    with _drafted(path, text) as draft:
        draft.replace(path)
    sync_folder(path.parent)


def make_private_folder(folder: Path) -> None:
    """Make a folder, with those above it, which nobody but its owner enters; those that are there stay as they are.

    ``Path.mkdir`` makes folders above for everybody, and takes away what the umask says, which may be too little or
    too much.
    """
    for missing in reversed(list(takewhile(lambda above: not above.exists(), (folder, *folder.parents)))):
        missing.mkdir(mode=0o700, exist_ok=True)
        missing.chmod(0o700)
    folder.mkdir(exist_ok=True)  # says so where it is a file


def close_to_others(folder: Path) -> None:
    """Remove the permissions of other users from a folder or file of this user."""
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXO:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO)


@contextmanager
def _drafted(path: Path, text: str) -> Iterator[Path]:
    """Keep the text on the disk beside ``path`` for the block, readable by its owner only.

    Drafts that killed processes left are removed: they have the secret too. A lock tells them from drafts in use.
    """
    with writing(path):
        make_private_folder(path.parent)
        _remove_left_drafts(path)
        draft, descriptor = _locked_draft(path)
    with os.fdopen(descriptor, "w") as file:
        try:
            with writing(path):
                os.fchmod(descriptor, 0o600)  # whatever the umask took away
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def _locked_draft(path: Path) -> tuple[Path, int]:
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(_DRAFT_BYTES)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return draft, descriptor
        os.close(descriptor)  # another process took it for one that was left, before the lock


def _remove_left_drafts(path: Path) -> None:
    is_draft = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * _DRAFT_BYTES}}}").fullmatch
    for draft in [file for file in path.parent.iterdir() if is_draft(file.name)]:
        with suppress(OSError):  # in use, or another process removes it
            descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
            finally:
                os.close(descriptor)
