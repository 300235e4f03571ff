"""Small files that hold a secret: made with mode 0600 in one step, read only where others may not read them."""

import os
import secrets
import stat
from itertools import takewhile
from pathlib import Path

from hermesops.base.disk import sync_folder, writing
from hermesops.errors import RefusedError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 20


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

    Returns:
        Whether it was written; ``False`` when there was one, which stays as it is.
    """
    draft = _drafted(path, text)
    try:
        os.link(draft, path)  # unlike a rename it never replaces: of two processes, one wins
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_folder(path.parent)  # what a key sealed is soon on the disk, and worth nothing without the key
    return True


def replace_secret(path: Path, text: str) -> None:
    """Write a secret file anew, whole or not at all; its folder is made too."""
    draft = _drafted(path, text)
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


def _drafted(path: Path, text: str) -> Path:
    """The text on the disk beside ``path``, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with writing(path):
        make_private_folder(path.parent)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask took away
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    return draft
