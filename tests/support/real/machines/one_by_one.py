"""Verifies a machine as testinfra does it by itself: one round trip for each command."""

from collections.abc import Sequence

from hermesops.machines.verify import verification
from hermesops.machines.verify.checks.promise import Expected, Promise
from hermesops.machines.verify.verification import PROMISES, Verification
from hermesops.vendor.channel.interface import Channel

QUICK = tuple(promise for promise in PROMISES if not promise.slow)
"""Without the turn that asks the model."""


async def verify_one_by_one(
    channel: Channel, expected: Expected, promises: Sequence[Promise] = PROMISES
) -> Verification:
    """The same verdicts as ``verify``."""
    return await verification._judged(channel, expected, promises, {})
