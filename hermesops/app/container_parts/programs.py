"""The Pulumi programs, given what they are about."""

import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.errors import HermesError, UsageError
from hermesops.model.ids import CellName, MachineId, MachineName
from hermesops.model.plan import Plan
from hermesops.settings import Environment

if TYPE_CHECKING:
    from hermesops.model.cell import CellSpec
    from hermesops.model.stack import StackRef


PLUGIN = "pulumi-resource-justavps"


def fleet_program() -> Callable[[], None]:
    """The program of the stack that Pulumi's own CLI is running, for ``pulumi/fleet/__main__.py``.

    Raises:
        RunError: There is no such cell, the plugin is missing, or the run would seal the state with a passphrase that
            is not the environment's. Pulumi shows it as one line.
    """
    import pulumi

    try:
        return _program_of(CellName(pulumi.get_stack()))
    except HermesError as error:
        raise pulumi.RunError(f"{error.message}: {error.hint}" if error.hint else error.message) from None


def _program_of(cell: CellName) -> Callable[[], None]:
    from hermesops.app.container import Container
    from hermesops.cells.stack.state import stack_of
    from hermesops.engine.cli_workspace import refuse_other_seal

    app = Container(Environment.load(), lambda _: None)
    program = app.programs.program(app.registry.cells.spec(cell), frozenset())
    if shutil.which(PLUGIN, path=app.env.variables.get("PATH", "")) is None:
        hint = f"activate the Python environment whose bin folder has {PLUGIN}"
        raise UsageError(f"{PLUGIN} is not on PATH", hint=hint)
    refuse_other_seal(app.pulumi_backend, stack_of(cell), Path.cwd(), app.env.variables)
    return program


class CellPrograms:
    """Cells' programs; see ``cells.ports.Programs``.

    Args:
        data_gb: Gigabytes of the data volume of machines of each plan.
    """

    def __init__(self, data_gb: Mapping[Plan, int]) -> None:
        self._data_gb = data_gb

    def program(self, spec: "CellSpec", released: frozenset[MachineName]) -> Callable[[], None]:
        """The program of one cell.

        Args:
            spec: What the cell should be.
            released: Machines whose protection it drops.
        """
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, released, data_gb=self._data_gb)

    def importing(self, spec: "CellSpec", ids: Mapping[MachineName, MachineId]) -> Callable[[], None]:
        """The program of one cell that names some of its machines by their ids; see ``cells.stack.state_repair``."""
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, imported=ids, data_gb=self._data_gb)

    def urns(self, stack: "StackRef", machines: Collection[MachineName]) -> tuple[str, ...]:
        """Pulumi's names of machines of a cell, with what they need."""
        from hermesops.stacks.fleet import urns_of

        return urns_of(stack, machines)
