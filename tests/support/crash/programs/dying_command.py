"""A command of hermesops that is killed at one of its writes.

Run ``python -m tests.support.crash.programs.dying_command COUNTER AT LEASE_S ARGUMENTS…``: it dies at its AT-th write.

A write is everything that changes something outside the process: a transaction of the registry, a file of Pulumi's
state, a change asked of the vendor, by this process or by its plugin. Each counts twice, just before and just after.
The whole process group dies, and the plugin, as when the computer does. Its leases live LEASE_S seconds. With AT 0
nothing dies, and the counter says how many writes there are.
"""

import fcntl
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from tests.support.crash.death import Death, kill_this_process

PLUGIN = "pulumi-resource-justavps"


class SharedDeath(Death):
    """Counts points across processes, and ends them all at the chosen one.

    Args:
        counter: A file with a line for each point.
        at: Which point; 0 for none.
    """

    def __init__(self, counter: Path, at: int) -> None:
        super().__init__(at, kill=self._kill_all)
        self._counter = counter

    def point(self, what: str = "") -> None:
        """Write the point down, and die if it is the one."""
        with self._counter.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = len(file.readlines()) + 1
            file.write(what + "\n")
            file.flush()
            if number == self.at:
                self._kill()

    def _kill_all(self) -> None:
        # The plugin is in a session of its own; it goes last, since it may be the one that speaks.
        os.killpg(int(self._counter.with_suffix(".group").read_text()), signal.SIGKILL)
        kill_this_process()


def make_mortal(death: Death) -> None:
    """Make every write of this process a step."""
    from hermesops.infra.engine.embedded.state.bucket import BucketStorage  # noqa: PLC0415 - what is not used is not loaded
    from hermesops.infra.engine.embedded.state.storage import FolderStorage  # noqa: PLC0415 - as above
    from hermesops.store.registry.database import Database  # noqa: PLC0415 - as above
    from hermesops.vendor.justavps.transport import Transport  # noqa: PLC0415 - as above

    for place in (FolderStorage, BucketStorage):
        for name in ("write", "keep", "delete"):
            setattr(place, name, death.around(getattr(place, name), f"state {name}"))
    Transport.opened = _opened(Transport.opened, death)  # type: ignore[method-assign]
    Database.writing = death.around_commit(Database.writing)  # type: ignore[method-assign]


def _opened(opened: Callable[..., Any], death: Death) -> Callable[..., Any]:
    @wraps(opened)
    @asynccontextmanager
    async def call(self: object, request: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - the transport's own types
        what = f"{request.method} {request.path.rpartition('/')[2]}"
        if request.changes:
            death.point(f"before vendor {what}")
        async with opened(self, request) as answer:
            if request.changes:
                death.point(f"after vendor {what}")
            yield answer

    return call


def plugin_folder(folder: Path, counter: Path, at: int) -> Path:
    """A folder with a plugin that dies with this command; the engine looks beside its Python first."""
    folder.mkdir(exist_ok=True)
    script = folder / PLUGIN
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m tests.support.crash.programs.dying_command'
        f' "{counter}" {at} 0 {PLUGIN} "$@"\n'
    )
    script.chmod(0o755)
    return folder


def shorten_leases(lease_s: float) -> None:
    """Let leases of this process run out so soon after its death, so that a test need not wait for that."""
    from datetime import timedelta  # noqa: PLC0415 - as above

    from hermesops.store.operations.leases import keeper as lease  # noqa: PLC0415 - as above
    from hermesops.store.registry.repositories import leases  # noqa: PLC0415 - as above

    leases.LEASE_LIFE = timedelta(seconds=lease_s)
    lease.RENEW_S = lease_s / 2


def main() -> int:
    """Be hermesops, or its plugin."""
    counter, at, lease_s, *arguments = sys.argv[1:]
    make_mortal(SharedDeath(Path(counter), int(at)))
    if arguments[:1] == [PLUGIN]:
        from hermesops.cli.provider import main as plugin  # noqa: PLC0415 - one of two programs

        sys.argv = arguments
        return plugin() or 0
    from hermesops.cli.main import main as command  # noqa: PLC0415 - as above

    shorten_leases(float(lease_s))
    Path(counter).with_suffix(".group").write_text(str(os.getpgrp()))
    sys.executable = str(plugin_folder(Path(f"{counter}.plugin"), Path(counter), int(at)) / "python")
    sys.argv = ["hermesops", *arguments]
    return command()


if __name__ == "__main__":
    sys.exit(main())
