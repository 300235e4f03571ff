"""A user to a running agent out of the warm pool: the whole command, as its user waits for it."""

import statistics

from tests.bench.bench_provision import provision
from tests.bench.figures import Board, report, spread
from tests.support.real.commands.command import Command


async def measure(board: Board, command: Command, users: int) -> None:
    """Add the figures; leaves that many agents more, and an empty pool."""
    pooled = command.with_variables(HERMESOPS_POOL_SIZE=f"light={users}")
    report(f"==> hermesops job run pools: {users} machines")
    filled = await pooled.ok("job", "run", "pools")
    ready = [
        machine
        for machine in (await pooled.ok("pool", "list", "--json")).json["machines"]
        if machine["status"] == "ready"
    ]
    board.add(f"hermesops job run pools, {len(ready)} machines, from the image", f"{filled.seconds:.1f} s")
    whole: list[float] = []
    steps: list[dict[str, float]] = []
    for number in range(len(ready)):
        # A pool of none: what is taken is not made anew while the next one is measured.
        ran = await provision(command, f"warm{number}")
        assert ran is not None
        whole.append(ran[0])
        steps.append(ran[1])
    parts = ", ".join(f"{step} {statistics.median(values.get(step, 0.0) for values in steps):.2f}" for step in steps[0])
    board.add(
        f"hermesops provision, out of the warm pool, {len(whole)} users in turn, without messengers",
        spread(whole),
        target="<= 1 s",
        against=f"medians of its steps: {parts}",
    )
    restarts = [(await command.ok("instance", "restart", f"warm{number}")).seconds for number in range(len(whole))]
    board.add(
        "  with messengers: one restart on top",
        f"p50 {statistics.median(restarts):.2f} s",
        against="hermesops instance restart of the same agents, the command's own start included",
    )
