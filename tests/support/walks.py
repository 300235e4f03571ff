"""Works driven to their end in a world of the test's own, killed before or after any step."""

from collections.abc import Callable
from typing import Any

from hermesops.model.operation import Done, Refused

_MOST = 60


async def walk(make: Callable[[], Any], *, killed_at: int | None = None, after: bool = False) -> list[str]:
    """Drive a work to its end; the names of its steps, and last what it finished or was impossible with.

    Args:
        make: Makes the work; another one after each kill.
        killed_at: The step at which it is killed once.
        after: Whether the kill comes when the step was done, else before.
    """
    work, killed = make(), False
    steps: list[str] = []
    for _ in range(_MOST):
        seen = await work.observe()
        decided = work.decide(seen)
        if isinstance(decided, Done):
            return [*steps, decided.outcome]
        if isinstance(decided, Refused):
            return [*steps, f"{type(decided.error).__name__}: {decided.error.message}"]
        assert work.describe(decided, seen)
        dies = len(steps) == killed_at and not killed
        if not dies or after:
            await work.do(decided, seen)
        if dies:
            work, killed = make(), True
        else:
            steps.append(type(decided).__name__)
    raise AssertionError(f"no end: {steps}")
