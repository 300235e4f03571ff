"""20 checks on ten machines: in one batch each, and one by one as testinfra does it, in the same run."""

import asyncio
import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from hermesops.app import Container
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.verification import Verification, verify
from hermesops.model.check import Verdict
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.vendor.channel import Channel
from tests.bench.figures import Board, report
from tests.support.real.machines.one_by_one import QUICK, verify_one_by_one

CHECKS = 20
RUNS = 5
_TARGET_MACHINES = 10

Machines = Sequence[tuple[Channel, Expected]]


async def measure(board: Board, app: Container) -> None:
    """Add the figures, on every living instance's machine, at most ten.

    Raises:
        AssertionError: The two ways disagree, or a machine does not keep its promises: nothing was measured then.
    """
    async with app.connect() as connected:
        living = app.registry.instances.list(status=InstanceStatus.RUNNING)[:_TARGET_MACHINES]
        machines = [
            (
                await connected.instance_client.channel_to(instance),
                Expected.of(instance, api_server_key=app.registry.instance_secrets.api_server_key(instance.id)),
            )
            for instance in living
        ]
        report(f"==> {CHECKS} checks on {len(machines)} machines")
        await timed(machines, verify)  # the first look warms the machines' page caches
        batched = [await timed(machines, verify) for _ in range(RUNS)]
        single = await timed(machines, verify_one_by_one)
    for verification in (*batched[-1][1], *single[1]):
        assert verification.is_ok, [check for check in verification.checks if check.verdict is not Verdict.OK]
    assert [verdicts(verification) for verification in batched[-1][1]] == [
        verdicts(verification) for verification in single[1]
    ]
    seconds = [took for took, _ in batched]
    median = statistics.median(seconds)
    values = (
        [verification.round_trips for verification in batched[-1][1]],
        [verification.round_trips for verification in single[1]],
    )
    board.add(
        f"verify, {CHECKS} checks on {len(machines)} machines at once",
        f"p50 {median:.2f} s, best {min(seconds):.2f} s, max {max(seconds):.2f} s",
        target="<= 1.5 s" if len(machines) == _TARGET_MACHINES else "<= 1.5 s on 10",
        against=f"testinfra one by one, all machines at once: {single[0]:.2f} s, {single[0] / median:.1f}x; "
        f"same verdicts; round trips a machine {max(values[0])} and {max(values[1])}",
    )


async def timed(
    machines: Machines, way: Callable[..., Coroutine[Any, Any, Verification]]
) -> tuple[float, list[Verification]]:
    """Look at all machines at once."""
    started = time.perf_counter()
    verifications = await asyncio.gather(*(way(channel, expected, QUICK[:CHECKS]) for channel, expected in machines))
    return time.perf_counter() - started, list(verifications)


def verdicts(verification: Verification) -> list[tuple[str, Verdict]]:
    """What was found, without words that may differ from one moment to the next, such as a disk's free space."""
    return [(check.name, check.verdict) for check in verification.checks]
