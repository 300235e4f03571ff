"""Runs one change of a stack in a process that is killed before one of its calls to the disk.

Run ``python -m tests.support.crash.programs.dying_stack_change FOLDER CHANGE CALL``. The process dies by SIGKILL before
its CALLth call that opens, syncs, renames, links or makes something in the state's folder. With 0 it lives, and prints
how many such calls there are.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hermesops.infra.engine.embedded.state import storage as folder_storage
from hermesops.infra.engine.options import Program
from tests.support.crash.death import Death, Mortal, kill_this_process
from tests.support.engine.fake_stack import STACK, FakeStack, machines

CHANGES: dict[str, Callable[[], Program]] = {
    "create": lambda: machines(["a", "b"]),
    "update": lambda: machines(["a", "b"], size="pro"),
    "replace": lambda: machines(["a", "b"], size="pro", hostname="two"),
    "delete": lambda: machines(["a"], size="pro", hostname="two"),
}
"""Each begins where the one before it ended."""

COUNTED = frozenset({"open", "fsync", "replace", "link", "mkdir"})


def main(folder: str, change: str, nth_call: str) -> None:
    death = Death.before(int(nth_call), kill=kill_this_process)
    vars(folder_storage)["os"] = Mortal(os, death, COUNTED)
    asyncio.run(FakeStack(Path(folder)).engine(parallel=1).up(STACK, CHANGES[change]()))
    sys.stdout.write(f"{death.steps}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
