"""Works driven to their end in a world of the test's own, killed before or after any step."""

from collections.abc import Callable
from typing import Any

from hermesops.model.operation import Done, Refused
from tests.support.crash.death import Death, KilledError

_MOST = 60


async def walk(make: Callable[[], Any], *, killed_at: int | None = None, after: bool = False) -> list[str]:
    """Drive a work to its end; the names of its steps, and last what it finished or was impossible with.

    Args:
        make: Makes the work; another one after each kill.
        killed_at: The step at which it is killed once.
        after: Whether the kill comes when the step was done, else before.
    """
    work = make()
    death = Death() if killed_at is None else (Death.after if after else Death.before)(killed_at + 1)
    steps: list[str] = []
    for _ in range(_MOST):
        observed = await work.observe()
        decided = work.decide(observed)
        if isinstance(decided, Done):
            return [*steps, decided.outcome]
        if isinstance(decided, Refused):
            return [*steps, f"{type(decided.error).__name__}: {decided.error.message}"]
        assert work.describe(decided, observed)
        try:
            death.point()
            await work.do(decided, observed)
            death.point()
        except KilledError:
            work, death = make(), Death()
        else:
            steps.append(type(decided).__name__)
    raise AssertionError(f"no end: {steps}")
