"""Files of a world that only its owner may read: keys and ``world.json``.

It must not hold them in memory; each call reads or writes.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from hermesops.errors import BrokenInvariantError


def write_private(path: Path, data: bytes) -> None:
    """Replace a file at once, mode 0600 from its first byte; a reader sees the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def key_of(path: Path, prefix: str) -> str:
    """The key in a file; made, with 256 random bits, when there is none.

    Args:
        path: The key's file.
        prefix: What a new key begins with, so that people and scanners recognise it.
    """
    try:
        key = path.read_text().strip()
    except FileNotFoundError:
        key = ""
    if not key:
        key = prefix + secrets.token_urlsafe(32)
        write_private(path, key.encode() + b"\n")
    return key


def read_object(path: Path) -> Mapping[str, object] | None:
    """A JSON object from a file; ``None`` when there is no such file.

    Raises:
        BrokenInvariantError: It holds something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(value, dict):
        raise _damaged(path)
    return value


def write_object(path: Path, value: Mapping[str, object]) -> None:
    """Replace a file by a JSON object."""
    write_private(path, json.dumps(value, indent=2).encode() + b"\n")


def _damaged(path: Path) -> BrokenInvariantError:
    return BrokenInvariantError(f"{path} is damaged: it is not a JSON object", hint="hermesops local up writes it anew")
