from datetime import UTC, datetime

import pytest

from hermesops.errors import UsageError
from hermesops.machines.converge import Host, hosts_of
from hermesops.machines.converge.inventory import inventory_of
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan


def _instance(alias: str, machine_id: str | None) -> Instance:
    return Instance(
        id=InstanceId(f"id-{alias}"),
        user_id=UserId("u"),
        user_alias=alias,
        plan=Plan.LIGHT,
        status=InstanceStatus.RUNNING,
        cell=CellName("hel1-01"),
        machine_name=MachineName("m"),
        machine_id=MachineId(machine_id) if machine_id else None,
        epoch=1,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


def test_an_instance_is_a_host_once_it_has_a_machine() -> None:
    hosts = hosts_of([_instance("ada", "m1"), _instance("bob", None), _instance("", "m3")])
    assert [(host.name, host.machine_id) for host in hosts] == [("ada", "m1"), ("id-", "m3")]
    assert hosts[0].groups == ("instances", "cell_hel1_01", "plan_light", "status_running")


def test_hosts_carry_their_machine_and_their_own_variables() -> None:
    inventory = inventory_of([Host("ada", "m1", {"x": 1}), Host("bob", "m2", groups=("instances", "odd"))])
    assert inventory == {
        "all": {
            "hosts": {"ada": {"x": 1, "ansible_toolbox_machine": "m1"}, "bob": {"ansible_toolbox_machine": "m2"}},
            "children": {
                "instances": {"hosts": {"ada": None, "bob": None}},
                "odd": {"hosts": {"bob": None}},
            },
        }
    }


def test_a_hosts_variables_are_not_shown() -> None:
    assert "CANARY" not in repr(Host("ada", "m1", {"key": "CANARY"}))


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [([], "no machine to converge"), ([Host("ada", "m1"), Host("ada", "m2")], "two machines of one name: ada, ada")],
)
def test_no_host_and_two_of_one_name_are_refused(hosts: list[Host], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        inventory_of(hosts)
