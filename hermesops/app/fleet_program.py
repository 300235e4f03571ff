"""The program of a cell's stack that an operator runs with Pulumi's own CLI."""

from collections.abc import Callable

import pulumi

from hermesops.agents.cells.stack.by_hand import program_by_hand
from hermesops.app.container import Container
from hermesops.infra.engine.by_hand import run_errors
from hermesops.model.ids import CellName
from hermesops.settings.environment import Environment


def fleet_program() -> Callable[[], None]:
    """The program of the stack that Pulumi's own CLI runs, for ``pulumi/fleet/__main__.py``.

    Raises:
        RunError: As ``program_by_hand`` and ``Environment.load``.
    """
    with run_errors():
        container = Container(Environment.load(), lambda _: None)
        backend, variables = container.pulumi_backend, container.env.variables
        return program_by_hand(CellName(pulumi.get_stack()), container.registry, container.programs, backend, variables)
