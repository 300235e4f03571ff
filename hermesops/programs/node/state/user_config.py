"""The user's configuration in the form of each schema that it had: for the way back to an older release.

It runs as the agent's own user, while no gateway runs. Below our folder in the home, ``configs/N.yaml`` is the user's
``config.yaml`` as it was last written in schema N. A release that reads an older schema than the present file has gets
the newest file that it can read; the present one is kept under its own number. Both steps only rename, so they need no
room, and may be killed anywhere: ``config.yaml`` is one whole file or the other.
"""

import os
import re
import shutil
from pathlib import Path

from hermesops.programs.node.system.files import sync
from hermesops.wire.state import contents
from hermesops.wire.state.contents import CONFIG

FOLDER = "configs"
_CONFIG = os.fsdecode(CONFIG)
_BYTES = 1 << 20
_SCHEMA = re.compile(rb"""^_config_version:\s*["']?(\d{1,9})""", re.MULTILINE)
_KEPT = re.compile(r"(\d{1,9})\.yaml")


def schema_in(data: bytes) -> int | None:
    """The number of a configuration's schema: 0 where it names none, ``None`` for an empty file.

    Source: hermes-agent 0.19.0, ``_config_version`` in ``hermes_cli/config.py``.
    """
    match = _SCHEMA.search(data)
    return int(match[1]) if match else 0 if data else None


def keep(home: Path) -> None:
    """Keep the present configuration under the number of its schema; does nothing where there is no plain file.

    Raises:
        OSError: There is no room.
    """
    schema = _present(home)
    if schema is None:
        return
    folder = _folder(home)
    making = folder / f"{schema}.part"
    contents.make_free(making)
    shutil.copyfile(home / _CONFIG, making, follow_symlinks=False)
    making.chmod(0o600)
    sync(making)
    making.replace(folder / f"{schema}.yaml")
    sync(folder)


def source(home: Path, schema: int) -> Path:
    """The file that an agent of a schema is to read: the present configuration, or a kept one if that is newer."""
    present = _present(home)
    if present is None or present <= schema:
        return home / _CONFIG
    older = [number for number in _kept(home) if number <= schema]
    return _place(home) / f"{max(older)}.yaml" if older else home / _CONFIG


def take_back(home: Path, schema: int) -> int | None:
    """Put the newest configuration in place that an agent of a schema can read; keep the present one beside.

    Does nothing where the present one is not newer, or where none is kept: the agent ignores the keys that it does not
    know.

    Returns:
        The schema of the file that was put in place; ``None`` where nothing was done.
    """
    older, present = source(home, schema), _present(home)
    if present is None or older == home / _CONFIG:
        return None
    making = older.with_name(f"{present}.part")
    contents.make_free(making)
    making.hardlink_to(home / _CONFIG)
    making.replace(older.with_name(f"{present}.yaml"))
    older.replace(home / _CONFIG)
    sync(older.parent)
    sync(home)
    return _present(home)


def _present(home: Path) -> int | None:
    try:
        with os.fdopen(contents.opened(home, CONFIG), "rb") as file:
            return schema_in(file.read(_BYTES))
    except OSError:
        return None


def _kept(home: Path) -> list[int]:
    place = _place(home)
    if place.is_symlink() or not place.is_dir():
        return []
    names = [_KEPT.fullmatch(path.name) for path in place.iterdir() if path.is_file() and not path.is_symlink()]
    return [int(name[1]) for name in names if name]


def _place(home: Path) -> Path:
    return contents.ours(home) / FOLDER


def _folder(home: Path) -> Path:
    folder = _place(home)
    if folder.is_symlink() or not folder.is_dir():
        contents.make_free(folder)
        folder.mkdir(mode=0o700, parents=True)
    return folder
