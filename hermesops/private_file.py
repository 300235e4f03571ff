"""Files that hold a secret: read only where nobody but their owner may read them."""

import os
import stat
from pathlib import Path

from hermesops.errors import RefusedError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 20


def refuse_readable_by_others(descriptor: int, path: Path, *, what: str) -> None:
    """Go on only where nobody but its owner may read or write an open file.

    Args:
        descriptor: Of the file, so that no other one is looked at than the one that is read.
        path: Its name.
        what: What it holds, as it should read after "the".

    Raises:
        RefusedError: Others may.
    """
    if os.fstat(descriptor).st_mode & _OTHERS:
        raise RefusedError(f"the {what} in {path} may be read by others", hint=f"chmod 600 {path}")


def read_secret(path: Path, *, what: str) -> str:
    """The text of a file that holds a secret, without white space around it.

    Args:
        path: The file.
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
