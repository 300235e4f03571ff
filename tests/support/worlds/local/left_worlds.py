"""Worlds whose test run was killed: each run writes down what it makes, and the next one removes what the dead left.

A run is alive while it holds the lock of its list; the kernel takes the lock back when it dies, however it does.
So several runs on one computer leave each other's worlds alone.
"""

import asyncio
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from hermesops.base import assets
from hermesops.errors import HermesError

_WORLD, _FOLDER = "world", "folder"


def lists_folder() -> Path:
    """Where this computer's runs keep their lists."""
    return Path(tempfile.gettempdir()) / "hermesops-test-worlds"


def remember_world(state: Path) -> None:
    """Write down that this run is about to make a world in that folder."""
    _remember(_WORLD, state)


def remember_folder(folder: Path) -> None:
    """Write down that this run makes a folder which is to go once the worlds are gone."""
    _remember(_FOLDER, folder)


def _remember(kind: str, path: Path) -> None:
    line = f"{kind} {path.resolve()}\n".encode()
    os.write(_list_of_this_run(lists_folder()), line)


@functools.cache
def _list_of_this_run(folder: Path) -> int:
    """Open for appending and locked until this process ends; programs that it starts do not inherit it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    draft = folder / f".{uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    draft.rename(folder / f"{os.getpid()}-{uuid4().hex}")  # nobody sees it before it is locked
    return descriptor


def sweep(lists: Path) -> list[str]:
    """Remove every world whose run is dead; says of each what became of it. A list stays while its world does."""
    lines: list[str] = []
    for path in sorted(lists.glob("[!.]*")):
        with _dead(path) as is_dead:
            if is_dead:
                lines += _remove(path)
    return lines


@contextmanager
def _dead(path: Path) -> Iterator[bool]:
    """Whether that list's run has ended; nobody else takes it for dead meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # somebody else was faster
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield path.exists()
    finally:
        os.close(descriptor)


def _remove(path: Path) -> list[str]:
    lines = dict.fromkeys(line.partition(" ")[::2] for line in path.read_text().splitlines())
    reported, failed = [], False
    for state in (Path(value) for kind, value in lines if kind == _WORLD):
        if not state.exists():
            continue
        try:
            _purge(state)
        except HermesError as error:
            failed = True
            reported.append(f"could not remove {state}, left by a killed run: {error.message}")
        else:
            shutil.rmtree(state, ignore_errors=True)
            reported.append(f"removed {state}, left by a killed run")
    if not failed:
        for _, value in lines:
            shutil.rmtree(value, ignore_errors=True)
        path.unlink()
    return reported


def _purge(state: Path) -> None:
    from hermesops.localcloud.world.local_world import World  # noqa: PLC0415 - half a second, and there is seldom anything to sweep

    world = World(state, base_definition=assets.folder("images") / "base-debian12")
    asyncio.run(world.down(purge=True, report=lambda _: None))
