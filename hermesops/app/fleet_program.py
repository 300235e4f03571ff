"""The program of a cell's stack that an operator runs with Pulumi's own CLI."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pulumi

from hermesops.agents.cells.stack.state import stack_of
from hermesops.app.container_parts.unconnected import Unconnected
from hermesops.errors import HermesError, UsageError
from hermesops.infra.engine.cli_workspace import refuse_other_seal
from hermesops.model.ids import CellName
from hermesops.settings.environment import Environment

PLUGIN = "pulumi-resource-justavps"


def fleet_program() -> Callable[[], None]:
    """The program of the stack that Pulumi's own CLI is running, for ``pulumi/fleet/__main__.py``.

    Raises:
        RunError: There is no such cell, the plugin is missing, or the run would seal the state with a passphrase that
            is not the environment's. Pulumi shows it as one line.
    """
    try:
        return _program_of(CellName(pulumi.get_stack()))
    except HermesError as error:
        raise pulumi.RunError(f"{error.message}: {error.hint}" if error.hint else error.message) from None


def _program_of(cell: CellName) -> Callable[[], None]:
    app = Unconnected(Environment.load(), lambda _: None)
    program = app.programs.program(app.registry.cells.spec(cell), frozenset())
    if shutil.which(PLUGIN, path=app.env.variables.get("PATH", "")) is None:
        hint = f"activate the Python environment whose bin folder has {PLUGIN}"
        raise UsageError(f"{PLUGIN} is not on PATH", hint=hint)
    refuse_other_seal(app.pulumi_backend, stack_of(cell), Path.cwd(), app.env.variables)
    return program
