"""The inventory of one run. Pure: no file, no network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermesops.errors import UsageError

INSTANCES = "instances"
"""Group of the hosts that ``playbooks/instance.yml`` is for."""


@dataclass(frozen=True)
class Host:
    """One machine to converge.

    Attributes:
        name: How results call it; unique in a run.
        machine_id: The vendor's id.
        variables: Ansible variables of this host alone; may hold secrets.
        groups: Groups it is in.
    """

    name: str
    machine_id: str
    variables: Mapping[str, object] = field(default_factory=dict, repr=False)
    groups: tuple[str, ...] = (INSTANCES,)


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
