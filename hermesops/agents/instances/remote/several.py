"""Work on the machines of several instances at once: one that hangs or fails delays and spoils no other."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hermesops.base.fan_out import Limits, attempt, fan_out
from hermesops.errors import HermesError
from hermesops.model.fleet.instance import Instance

R = TypeVar("R")

_AT_ONCE = 32

_SLOW_AFTER_S = 10.0
"""Seconds after which a slow machine leaves its place to the next one."""

_MARGIN_S = 15.0
"""Seconds beyond those of the work itself: JustAVPS is asked for the machine first."""

_CANCELLED_S = 60.0
"""Seconds more in which work that was cancelled has to end."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The result for one instance, or the error."""

    instance: Instance
    result: R | HermesError


async def on_each(
    instances: Sequence[Instance],
    work: Callable[[Instance], Awaitable[R]],
    *,
    within_s: float,
    ended: Callable[[Outcome[R]], object] = lambda _: None,
) -> tuple[Outcome[R], ...]:
    """Do the work for each instance, at most 32 quick ones at once; a machine that is slow keeps no place.

    Args:
        within_s: Seconds that the work may take for one; after some more it is cancelled, and has failed.
        ended: Called with each outcome as soon as it is there, in the order in which they come.

    Returns:
        All outcomes, in the order of the instances.
    """

    async def done(instance: Instance) -> Outcome[R]:
        outcome = Outcome(instance, await attempt(work, instance, within_s + _MARGIN_S))
        ended(outcome)
        return outcome

    limits = Limits(_AT_ONCE, _SLOW_AFTER_S, within_s + _MARGIN_S + _CANCELLED_S)
    outcomes = await fan_out(instances, done, limits)
    return tuple(
        Outcome(instance, outcome) if isinstance(outcome, HermesError) else outcome
        for instance, outcome in zip(instances, outcomes, strict=True)
    )
