"""After a total loss: what machines tell is believed once, and what nobody tells is listed by name."""

from dataclasses import replace

from hermesops.agents.drift.lost_registry.rebuild import plan_rebuild
from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.model.ids import CellName, MachineId, MachineName, user_id_from_alias
from tests.support.fleets.in_memory import recovered

GONE = MachineName("hermes-local-cell1-ffffffffffff")


def test_every_instance_that_its_machine_remembers_is_known_again() -> None:
    recovered_instances = [recovered(number) for number in range(100)]
    planned = plan_rebuild(reversed(recovered_instances))
    assert sorted(recovered.id for recovered in planned.instances) == sorted(
        recovered.id for recovered in recovered_instances
    )
    assert len({recovered.cell for recovered in planned.instances}) == 3
    assert planned.gone


def test_an_alias_is_believed_of_the_user_whose_id_was_made_from_it_and_others_stay_nameless() -> None:
    ada = replace(recovered(0), user_id=user_id_from_alias("ada"))
    planned = plan_rebuild([ada, recovered(1)], aliases=["ada", "eve", "No Alias"])
    assert {recovered.user_alias for recovered in planned.instances} == {"ada", ""}
    assert [left.name for left in planned.left] == [recovered(1).user_id]


def test_what_two_machines_claim_is_believed_of_neither() -> None:
    first = recovered(0)
    twin = replace(first, machine_id=MachineId("m-twin"), machine_name=GONE)
    rival = replace(recovered(1), id=recovered(2).id, user_id=first.user_id)
    for other in (twin, rival):
        planned = plan_rebuild([first, other])
        assert planned.instances == ()
        assert {left.name for left in planned.left} == {first.machine_name, other.machine_name}


def test_machines_that_do_not_tell_and_those_that_only_a_stack_knows_are_listed_with_a_command() -> None:
    silent = Forgotten(MachineId("m-1"), MachineName("hermes-local-cell1-000000000001"), "no answer")
    nobodys = Forgotten(MachineId("m-2"), MachineName("hermes-local-cell1-000000000002"), "nobody's", is_nobodys=True)
    planned = plan_rebuild(
        [silent, nobodys], in_stacks={GONE: CellName("cell1"), silent.machine_name: CellName("cell1")}
    )
    assert {left.name: str(left.hint) for left in planned.left} == {
        silent.machine_name: f"hermesops fleet repair adopt {silent.machine_name}",
        nobodys.machine_name: f"hermesops fleet repair remove-orphan {nobodys.machine_name}",
        GONE: "hermesops stack refresh cell1",
    }


def test_a_higher_epoch_is_shown_beside_the_lower_one_and_neither_is_believed() -> None:
    """Whoever is root on a machine can write a victim's id and a higher epoch."""
    true = recovered(0)
    later = replace(true, epoch=2, machine_id=MachineId("m-next"), machine_name=GONE)
    planned = plan_rebuild([true, later])
    assert planned.instances == ()
    assert {left.name for left in planned.left} == {true.machine_name, GONE}
    for left in planned.left:
        assert f"{true.machine_name} (epoch 1" in left.why
        assert f"{GONE} (epoch 2" in left.why
        assert "remove-orphan" not in str(left.hint)


def test_a_claim_that_its_machine_cannot_prove_is_not_believed_even_alone() -> None:
    liar = replace(recovered(0), doubt="its token for the model router belongs to instance x")
    planned = plan_rebuild([liar, recovered(1)])
    assert [recovered.id for recovered in planned.instances] == [recovered(1).id]
    (left,) = (left for left in planned.left if left.name == liar.machine_name)
    assert liar.doubt in left.why
    assert str(left.hint).startswith(f"hermesops fleet repair adopt {liar.machine_name} --contested")


def test_a_machine_that_the_vendor_lists_twice_is_one_claim() -> None:
    assert len(plan_rebuild([recovered(0), recovered(0)]).instances) == 1
