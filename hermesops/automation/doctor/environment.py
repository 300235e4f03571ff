"""Checks an environment: its registry opens, the vendor accepts its key."""

import asyncio
from collections.abc import Mapping

from hermesops.base import blocking
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError, NotWrittenError, UnavailableError
from hermesops.model.check import Check, CheckRun, Verdict

WITHIN_S = 30.0
"""Seconds for one check; a registry that another process has locked is waited for 20."""

_ENDED_S = 5.0


async def check_all(runs: Mapping[str, CheckRun]) -> list[Check]:
    """Run all checks at the same time, each in a thread and loop of its own.

    So one that hangs or breaks affects itself alone, even where it blocks its loop.

    Args:
        runs: By the check's name.

    Returns:
        A check for each, in their order, within ``WITHIN_S`` and a little.
    """
    limits = Limits(at_once=len(runs), slow_after_s=WITHIN_S, within_s=WITHIN_S + _ENDED_S)
    results = await fan_out(list(runs.items()), _ran, limits)
    return [_check(name, result) for name, result in zip(runs, results, strict=True)]


async def _ran(named: tuple[str, CheckRun]) -> str:
    name, run = named
    return await blocking.call(lambda: asyncio.run(run()), whom=name, within_s=WITHIN_S)


def _check(name: str, result: str | HermesError) -> Check:
    if isinstance(result, str):
        return Check(name, Verdict.OK, result)
    # No answer is unknown, not failed: a local world may be down on purpose.
    is_unknown = isinstance(result, UnavailableError) and not isinstance(result, NotWrittenError)
    verdict = Verdict.UNKNOWN if is_unknown else Verdict.FAILED
    return Check(name, verdict, result.message, result.hint)
