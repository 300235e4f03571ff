"""A cell's stack: its name, its lease, and the machines in its state as Pulumi exports it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import StackRef

PROJECT = "fleet"
"""Pulumi project of all cells; its folder is ``pulumi/fleet``."""


def stack_of(cell: CellName) -> StackRef:
    """The stack that holds a cell."""
    return StackRef(PROJECT, cell)


def lease_of(cell: CellName) -> str:
    """The subject of the lease under which a cell's stack is changed."""
    return f"stack/{PROJECT}/{cell}"


MACHINE_TYPE = "justavps:index:Machine"
"""Pulumi's type of a rented machine."""


def machines_in(state: Mapping[str, Any]) -> Mapping[MachineName, Mapping[str, Any]]:
    """The machines that a state holds, as Pulumi records them."""
    resources = state.get("deployment", {}).get("resources", [])
    return {
        MachineName(resource["urn"].rpartition("::")[2]): resource
        for resource in resources
        if resource["type"] == MACHINE_TYPE
    }


def protected_machines(state: Mapping[str, Any], names: Collection[MachineName]) -> tuple[CellMachine, ...]:
    """The named machines that are still protected in the state, as they were ordered."""
    return tuple(
        CellMachine(
            name=name,
            server_type=resource["inputs"]["server_type"],
            region=resource["inputs"]["region"],
            image_id=resource["inputs"].get("image_id"),
            owner=None,
        )
        for name, resource in machines_in(state).items()
        if name in names and resource.get("protect")
    )


def kept(spec: CellSpec, machines: Collection[CellMachine]) -> CellSpec:
    """The cell with these machines as they are, for the run that drops their protection and leaves them alone."""
    names = {machine.name for machine in machines}
    others = (machine for machine in spec.machines if machine.name not in names)
    return replace(spec, machines=(*others, *machines))


def made_anew(spec: CellSpec, state: Mapping[str, Any]) -> frozenset[MachineName]:
    """Choose the machines whose change to the ordered values replaces them.

    Source: ``MachineArgs`` of ``hermesops.infra.stacks.resources``: another region or image replaces the machine,
    another size does not.
    """
    in_state = machines_in(state)

    def differs(machine: CellMachine) -> bool:
        inputs = in_state[machine.name]["inputs"]
        return (machine.region, machine.image_id) != (inputs["region"], inputs.get("image_id"))

    return frozenset(machine.name for machine in spec.machines if machine.name in in_state and differs(machine))
