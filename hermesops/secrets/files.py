"""Small files that hold a secret, made with mode 0600 in one step; ``private_file`` reads them."""

import os
import secrets
from pathlib import Path

from hermesops.disk import sync_folder


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


def _drafted(path: Path, text: str) -> Path:
    """The text on the disk beside ``path``, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft
