"""Which instances a rollout may change, and what is frozen of them."""

from datetime import time

from hermesops.agents.rollout.plan.requests import SELECTABLE, Fleet, running_targets, select
from hermesops.model.fleet.instance import InstancePolicy, InstanceStatus, QuietHours
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import InstanceId
from hermesops.model.plan import Plan
from hermesops.model.rollout.spec import Action
from tests.support.rollouts.instances import instance
from tests.support.rollouts.rows import NEW, OLD
from tests.support.suite.cases import each_case

QUIET = QuietHours(time(22), time(6))
ADA, BOB = InstanceId("ada"), InstanceId("bob")
FLEET = Fleet(
    (
        instance("ada", image="image-1"),
        instance("bob", plan=Plan.HEAVY, cell="cell2"),
        instance("eve", status=InstanceStatus.SUSPENDED),
    ),
    releases={ADA: OLD},
    policies={ADA: InstancePolicy(opted_in=True, quiet=QUIET), BOB: InstancePolicy(protected=True)},
    exposures={ADA: (OLD, NEW)},
)


def test_only_running_instances_are_targets() -> None:
    assert [target.user for target in running_targets(FLEET)] == ["ada", "bob"]


def test_a_target_has_what_the_registry_knew_of_its_instance() -> None:
    ada, bob = running_targets(FLEET)
    assert (ada.release_before, ada.agent_version, ada.exposures) == (OLD, "0.18.2", 2)
    assert (ada.opted_in, ada.protected, ada.quiet) == (True, False, QUIET)
    assert (bob.release_before, bob.agent_version, bob.exposures) == ("", "", 0)
    assert (bob.opted_in, bob.protected, bob.quiet) == (False, True, None)


def test_before_a_rollout_of_machines_an_instance_ran_an_image() -> None:
    assert [target.release_before for target in running_targets(FLEET, Action.MACHINE)] == ["image-1", ""]


@each_case(
    ("where", "users"),
    [
        ("", ["ada", "bob"]),
        ("plan=heavy", ["bob"]),
        ("cell=cell1,region=hel1", ["ada"]),
        (f"release={OLD}", ["ada"]),
        ("user=bob,user=ada", ["ada", "bob"]),
        ("user=eve", []),
    ],
)
def test_a_selector_takes_targets_by_their_facts(where: str, users: list[str]) -> None:
    taken = select(running_targets(FLEET), Selector.parse(where, fields=SELECTABLE))
    assert [target.user for target in taken] == users
