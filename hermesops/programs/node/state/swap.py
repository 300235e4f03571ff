"""Replaces an agent's state by another; may be killed anywhere, and continues when it is called again.

It runs as the agent's own user, while no gateway runs. A home may be the root of a file system of its own, or lie on an
overlay, where folders cannot be renamed: so its content moves, name by name, and the folder stays. Our own folders say
how far it got:

``ready``                     a complete state that was proved: nothing has moved yet
``ready`` and ``leaving``     the old state is moving out
``entering`` and ``leaving``  the new state is moving in
``former``                    done; it keeps the old state
"""

import errno
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hermesops.wire.state.contents import FOUND, OURS, make_free, ours, remove

RELEASES = frozenset({"configs", "kept", "newer", "trial"})
"""Folders below ours that belong to a change of release; see ``node.state.snapshots`` and ``user_config``."""


def incoming(home: Path) -> Path:
    """The folder in which a state is made before it is ready."""
    return ours(home) / "incoming"


def is_begun(home: Path) -> bool:
    """Whether a state is ready to be installed, or is partly installed."""
    return (ours(home) / "ready").exists() or (ours(home) / "entering").exists()


def make_ready(home: Path) -> None:
    """Mark the incoming state as complete; from now on it will be installed."""
    make_free(ours(home) / "ready")
    incoming(home).rename(ours(home) / "ready")


def switch(home: Path) -> None:
    """Replace the present state by the one that is ready; does nothing when none is."""
    ready, leaving, entering, former = (ours(home) / name for name in ("ready", "leaving", "entering", "former"))
    if ready.exists():
        if not leaving.exists():
            make_free(former)
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
    """Remove the state that the last switch replaced; not while a switch is begun."""
    if is_begun(home) or (ours(home) / "leaving").exists():
        return
    if not ours(home).is_dir() or ours(home).is_symlink():
        make_free(ours(home))
        return
    for path in list(ours(home).iterdir()):
        if path.name not in RELEASES:
            remove(path)
    with suppress(OSError):  # something is kept
        ours(home).rmdir()


def _move_all(source: Path, target: Path, *, but: Collection[str] = ()) -> None:
    for name in sorted(os.listdir(source)):  # noqa: PTH208 - names alone, while they move away
        if name not in but:
            _move(source / name, target / name)


def _move(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        _merge(source, target)  # a run that was killed has begun it
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
