"""Death of a process at a chosen point. Every test that kills a process at a point of its program does it with this.

A step changes something that outlives its process. The process can die at two points of it: just before and just after.
Commands that are killed by their narration or after a time: ``Command.killed_at`` and ``killed_after``.
Standard library alone: one test takes this file into a guest.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

KILLED = -signal.SIGKILL
"""Exit code of a process that was killed."""


class KilledError(BaseException):
    """The process is gone. Only tests catch this, and no step of the process works afterwards."""


def raise_killed(*_: object, **__: object) -> NoReturn:
    """Die in a process that goes on: the test's own. Replaces any function that is a step."""
    raise KilledError


def kill_this_process() -> None:
    """Die by SIGKILL, in a process that a test started for that."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(program: str, *, timeout_s: float = 120) -> str:
    """Run a Python program that ends with ``kill_this_process``; what it printed."""
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert ended.returncode == KILLED, ended.stderr
    return ended.stdout


class Death:
    """Counts points, and dies at one of them; it stays dead.

    Args:
        at: Number of the point, from 1; 0 for never.
        kill: Ends the process.
    """

    def __init__(self, at: int = 0, *, kill: Callable[[], object] = raise_killed) -> None:
        self.at = at
        self.count = 0
        self._kill = kill

    @classmethod
    def before(cls, step: int, *, kill: Callable[[], object] = raise_killed) -> Self:
        """Die just before a step, where all are made by ``around``; 0 for never."""
        return cls(max(0, 2 * step - 1), kill=kill)

    @classmethod
    def after(cls, step: int, *, kill: Callable[[], object] = raise_killed) -> Self:
        """Die just after a step, where all are made by ``around``; 0 for never."""
        return cls(2 * step, kill=kill)

    @property
    def steps(self) -> int:
        """How many steps ``around`` has made or begun."""
        return (self.count + 1) // 2

    @property
    def is_dead(self) -> bool:
        """Whether the point has come."""
        return 0 < self.at <= self.count

    def point(self, what: str = "") -> None:  # noqa: ARG002 - for subclasses that write down what was where
        """Come to the next point."""
        self.count += 1
        if self.is_dead:
            self._kill()

    def around(self, step: Callable[P, T], name: str = "") -> Callable[P, T]:
        """A function that makes a step, with a point before it and one after it."""

        @wraps(step)
        def call(*args: P.args, **named: P.kwargs) -> T:
            self.point(f"before {name}")
            try:
                return step(*args, **named)
            finally:  # a step that fails has both points, too: or the numbers of later ones would hang on it
                self.point(f"after {name}")

        return call

    def around_commit(self, transaction: Callable[P, AbstractContextManager[T]]) -> Any:  # noqa: ANN401 - of its kind
        """A context manager that commits at its end, with a point before the commit and one after it."""

        @wraps(transaction)
        @contextmanager
        def call(*args: P.args, **named: P.kwargs) -> Iterator[T]:
            with transaction(*args, **named) as connection:
                yield connection
                self.point("before commit")
            self.point("after commit")

        return call


class Mortal:
    """Stands for an object some of whose methods are steps; not a subclass, so that no call goes past the death.

    Args:
        real: The object: a registry, a module, a part of a machine.
        death: Comes at one of the steps.
        steps: Names of methods; ``leases.take`` is a method of the part ``leases``. All methods, of all parts, if None.
    """

    def __init__(self, real: object, death: Death, steps: Collection[str] | None = None) -> None:
        self._real = real
        self._death = death
        self._steps = steps

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one has it
        attribute = getattr(self._real, name)
        if callable(attribute):
            return self._death.around(attribute, name) if self._steps is None or name in self._steps else attribute
        if self._steps is None:
            return Mortal(attribute, self._death)
        inner = {step.removeprefix(f"{name}.") for step in self._steps if step.startswith(f"{name}.")}
        return Mortal(attribute, self._death, inner) if inner else attribute
