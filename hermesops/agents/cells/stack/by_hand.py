"""The program of a cell's stack for a run of Pulumi's own CLI by an operator."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from hermesops.agents.cells.stack.state import stack_of
from hermesops.errors import UsageError
from hermesops.infra.engine.cli_workspace import refuse_other_seal
from hermesops.infra.stacks.fleet import CellPrograms
from hermesops.model.ids import CellName
from hermesops.store.registry import Registry

PLUGIN = "pulumi-resource-justavps"


def program_by_hand(
    cell: CellName, registry: Registry, programs: CellPrograms, backend: str, variables: Mapping[str, str]
) -> Callable[[], None]:
    """The program of a cell's stack.

    Args:
        backend: Of Pulumi's state.
        variables: Environment variables of the run.

    Raises:
        UsageError: There is no such cell, or the plugin is missing.
        RefusedError: The run would seal the state with a passphrase that is not the environment's.
    """
    program = programs.program(registry.cells.spec(cell), frozenset())
    if shutil.which(PLUGIN, path=variables.get("PATH", "")) is None:
        hint = f"activate the Python environment whose bin folder has {PLUGIN}"
        raise UsageError(f"{PLUGIN} is not on PATH", hint=hint)
    refuse_other_seal(backend, stack_of(cell), Path.cwd(), variables)
    return program
