"""Cells: rows, stacks, guards and warm pools."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from hermesops.agents.cells.changes.environment_guard import Guards
    from hermesops.agents.cells.cost.costs import Costs
    from hermesops.agents.cells.directory import Cells
    from hermesops.agents.cells.service import ChosenCells, StackUps
    from hermesops.agents.cells.stack.stacks import CellStacks
    from hermesops.agents.cells.stack.state_repair import CellStates
    from hermesops.agents.pool.directory import PoolMachines
    from hermesops.agents.pool.previews import PoolPreviews
    from hermesops.agents.pool.service import Pools
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

_TURN_S = 900.0
"""Seconds to wait for another run of a cell's stack; a cell of new machines takes minutes."""


def cells(container: "Container") -> "Cells":
    """Finds cells and their machines in the registry, without asking the vendor."""
    from hermesops.agents.cells.directory import Cells

    return Cells(container.registry)


def cell_stacks(container: "Container") -> "CellStacks":
    """Previews, applies, refreshes and destroys Pulumi stacks of cells, one run at a time each."""
    from hermesops.agents.cells.stack.progress import UpNarration, report_problem, report_progress
    from hermesops.agents.cells.stack.stacks import CellStacks
    from hermesops.base.progress import DURATIONS, Durations
    from hermesops.store.operations.leases.keeper import LeaseKeeper

    durations = Durations(container.env.folder / DURATIONS)
    return CellStacks(
        container.registry,
        lambda: container.engine,
        lambda: container.programs,
        partial(LeaseKeeper, container.registry, wait_s=_TURN_S),
        container.guards.judge,
        parallel=container.env.settings.parallel_cells,
        report=partial(report_progress, container.report),
        warn=partial(report_problem, container.report),
        narrate=lambda cell, changes: UpNarration(container.report, cell, changes, durations),
    )


def cell_states(container: "Container") -> "CellStates":
    """Replaces the Pulumi state of a cell by an earlier copy or by an exported one."""
    from hermesops.agents.cells.stack.state_repair import CellStates

    return CellStates(container.engine, container.registry, container.cell_stacks.hold_lease)


def guards(container: "Container") -> "Guards":
    """Checks every run of a cell's stack beforehand."""
    from hermesops.agents.cells.changes.environment_guard import Guards

    return Guards(container.env, container.registry, container.vendor)


def stack_ups(container: "Container") -> "StackUps":
    """Runs ``stack up`` of cells as operations, which workers can continue."""
    from hermesops.agents.cells.service import StackUps

    return StackUps(
        container.env,
        container.registry,
        container.cell_stacks,
        container.guards,
        container.saved_previews,
        container.make_operations,
        container.report,
    )


def choose_cells(
    container: "Container", *, names: "Sequence[str]" = (), where: str = "", everything: bool = False
) -> "ChosenCells":
    """The cells that an operator chooses, with previews and runs of their stacks.

    Raises:
        UsageError: None is chosen, or one that is not there.
    """
    from hermesops.agents.cells.selection import select_cells
    from hermesops.agents.cells.service import ChosenCells

    chosen = select_cells(container.registry.cells.list(), names=names, where=where, everything=everything)
    return ChosenCells(
        container.cell_stacks,
        container.guards,
        container.saved_previews,
        container.stack_ups,
        container.env.settings.parallel_cells,
        tuple(chosen),
    )


def read_costs(container: "Container") -> "Callable[[], Coroutine[Any, Any, Costs]]":
    """Reads the costs of the environment's machines."""
    from hermesops.agents.cells.cost.costs import costs_of

    return partial(costs_of, container.registry, container.vendor, container.env.name)


def pool_machines(container: "Container") -> "PoolMachines":
    """Finds unassigned machines of warm pools in the registry, without asking the vendor."""
    from hermesops.agents.pool.directory import PoolMachines

    return PoolMachines(container.registry)


def pool_previews(container: "Container") -> "PoolPreviews":
    """Foresees drains and fillings of warm pools, and their cost."""
    from hermesops.agents.pool.previews import PoolPreviews

    return PoolPreviews(container.env.settings, container.registry, container.vendor)


def pools(connected: "Connected") -> "Pools":
    """Fills, claims from and drains warm pools of ready machines."""
    from hermesops.agents.pool.service import Pools

    container = connected.container
    return Pools(
        container.env.settings,
        container.registry,
        connected.client,
        connected.instance_client,
        container.cell_stacks,
        container.adapters.machine_checks(partial(connected.verify_without_user, report=lambda _: None)),
        container.report,
    )
