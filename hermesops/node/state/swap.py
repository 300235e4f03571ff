"""Puts a state in the place of an agent's state, so that it can be killed anywhere and goes on when it is called again.

It runs as the agent's own user, while no gateway runs. A home may be the root of a file system of its own, or lie on an
overlay, where folders cannot be renamed: so what is in it moves, name by name, and the folder stays. Which of our own
folders are there says how far it got:

``ready``                 a whole state that was proved: nothing has moved yet
``ready`` and ``leaving``     what was there is on its way out
``entering`` and ``leaving``  what shall be there is on its way in
``former``                done; what was there before is kept in it
"""

import errno
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hermesops.node.state.archive.tar_stream import empty
from hermesops.node.state.contents import FOUND, OURS, remove

RELEASES = frozenset({"kept", "newer", "trial"})
"""Folders below ours that belong to a change of release; see ``node.state.snapshots``."""


def incoming(home: Path) -> Path:
    """Where a state is made before it is ready."""
    return _ours(home) / "incoming"


def is_begun(home: Path) -> bool:
    """Whether a state is ready to be put in place, or half is."""
    return (_ours(home) / "ready").exists() or (_ours(home) / "entering").exists()


def make_ready(home: Path) -> None:
    """Say that what came in is whole; from here on it will be put in place."""
    empty(_ours(home) / "ready")
    incoming(home).rename(_ours(home) / "ready")


def switch(home: Path) -> None:
    """Put the state that is ready in place of what is there; does nothing when none is."""
    ours = _ours(home)
    ready, leaving, entering, former = (ours / name for name in ("ready", "leaving", "entering", "former"))
    if ready.exists():
        if not leaving.exists():
            empty(former)
            leaving.mkdir(mode=0o700)
        _move_all(home, leaving, but={os.fsdecode(OURS), os.fsdecode(FOUND)})
        ready.rename(entering)
    if entering.exists():
        _move_all(entering, home)
        entering.rmdir()
    if leaving.exists():
        leaving.rename(former)
    os.sync()


def forget(home: Path) -> None:
    """Remove what was there before the last switch; not while a switch is begun."""
    if is_begun(home) or (_ours(home) / "leaving").exists():
        return
    if not _ours(home).is_dir() or _ours(home).is_symlink():
        empty(_ours(home))
        return
    for path in list(_ours(home).iterdir()):
        if path.name not in RELEASES:
            remove(path)
    with suppress(OSError):  # something is kept
        _ours(home).rmdir()


def _ours(home: Path) -> Path:
    return home / os.fsdecode(OURS)


def _move_all(source: Path, target: Path, *, but: Collection[str] = ()) -> None:
    for name in sorted(os.listdir(source)):  # noqa: PTH208 - names alone, while they move away
        if name not in but:
            _move(source / name, target / name)


def _move(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        _merge(source, target)  # begun by a run that was killed
        return
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if source.is_dir() and not source.is_symlink():
            target.mkdir(mode=0o700)
            _merge(source, target)
        else:  # a file system mounted below the home
            shutil.copy2(source, target, follow_symlinks=False)
            source.unlink()


def _merge(source: Path, target: Path) -> None:
    _move_all(source, target)
    try:
        source.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:  # a place where something is mounted stays
            raise
