"""Runs one change of a stack in a process that is killed at a call of its choice to the disk.

``python -m tests.support.deadly_disk FOLDER CHANGE POINT``: the process dies by SIGKILL before its POINTth call that
opens, syncs, renames, links or makes something in the state's folder; with 0 it lives and prints how many there are.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermesops.engine.embedded.state import storage as folder_storage
from hermesops.engine.options import Program
from tests.support.fake_stack import STACK, FakeStack, machines

CHANGES: dict[str, Callable[[], Program]] = {
    "create": lambda: machines(["a", "b"]),
    "update": lambda: machines(["a", "b"], size="pro"),
    "replace": lambda: machines(["a", "b"], size="pro", hostname="two"),
    "delete": lambda: machines(["a"], size="pro", hostname="two"),
}
"""Each begins where the one before it ended."""

COUNTED = frozenset({"open", "fsync", "replace", "link", "mkdir"})


class DeadlyOs:
    """Stands in for ``os``."""

    def __init__(self, point: int) -> None:
        self.point = point
        self.count = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever os has
        real = getattr(os, name)
        return self._counted(real) if name in COUNTED else real

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> Any:  # noqa: ANN401  as os has it
            self.count += 1
            if self.count == self.point:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        return call


def main(folder: str, change: str, point: str) -> None:
    deadly = DeadlyOs(int(point))
    vars(folder_storage)["os"] = deadly
    asyncio.run(FakeStack(Path(folder)).engine(parallel=1).up(STACK, CHANGES[change]()))
    sys.stdout.write(f"{deadly.count}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
