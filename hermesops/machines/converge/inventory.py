"""The inventory of one run. Pure: no file, no network."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hermesops.errors import UsageError
from hermesops.model.fleet.instance import Instance

INSTANCES = "instances"
"""Group of the hosts that ``playbooks/instance.yml`` is for."""


@dataclass(frozen=True)
class Host:
    """One machine to converge.

    Attributes:
        name: How results call it; unique in a run.
        variables: Ansible variables of this host alone; may hold secrets.
    """

    name: str
    machine_id: str
    variables: Mapping[str, object] = field(default_factory=dict, repr=False)
    groups: tuple[str, ...] = (INSTANCES,)


def hosts_of(instances: Iterable[Instance]) -> tuple[Host, ...]:
    """A host for each instance that has a machine, named as operators call its user; groups: cell, plan, status."""
    return tuple(
        Host(
            instance.user_alias or instance.id,
            instance.machine_id,
            {
                "hermes_instance_id": instance.id,
                "hermes_user_id": instance.user_id,
                "hermes_plan": instance.plan.value,
                "hermes_cell": instance.cell,
                "hermes_epoch": instance.epoch,
            },
            (
                INSTANCES,
                _group("cell", instance.cell),
                _group("plan", instance.plan.value),
                _group("status", instance.status.value),
            ),
        )
        for instance in instances
        if instance.machine_id is not None
    )


def _group(kind: str, value: str) -> str:
    """A group's name; Ansible takes letters, digits and underscores only."""
    return re.sub(r"\W", "_", f"{kind}_{value}")


def inventory_of(hosts: Sequence[Host]) -> dict[str, object]:
    """The hosts in the form of Ansible's YAML inventory.

    Raises:
        UsageError: No host, or two of one name.
    """
    if not hosts:
        raise UsageError("no machine to converge")
    names = [host.name for host in hosts]
    if len(set(names)) != len(names):
        raise UsageError(f"two machines of one name: {', '.join(sorted(n for n in names if names.count(n) > 1))}")
    groups: dict[str, dict[str, dict[str, None]]] = {}
    for host in hosts:
        for group in host.groups:
            groups.setdefault(group, {"hosts": {}})["hosts"][host.name] = None
    return {
        "all": {
            "hosts": {host.name: {**host.variables, "ansible_toolbox_machine": host.machine_id} for host in hosts},
            "children": groups,
        }
    }
