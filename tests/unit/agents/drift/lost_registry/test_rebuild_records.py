"""Recovery records and moved machines in a rebuild: the registry's last word counts, a machine's alone does not."""

from dataclasses import replace

from hermesops.agents.drift.lost_registry.rebuild import Left, Rebuild, Records, plan_rebuild
from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId, MachineName, user_id_from_alias
from hermesops.model.recovery.record import RecoveryRecord
from hermesops.model.recovery.recovered import Recovered
from tests.support.fleets.in_memory import recovered

ADA = replace(recovered(0), user_id=user_id_from_alias("ada"))
NEXT, LAST = (MachineName(f"hermes-local-cell1-{digit * 12}") for digit in "de")


def records(*instances: Recovered) -> Records:
    return Records({recovered.id: RecoveryRecord(recovered, "password", (), ()) for recovered in instances})


def moved(recovered: Recovered, name: MachineName, epoch: int, doubt: str = "") -> Recovered:
    return replace(recovered, machine_name=name, machine_id=MachineId(f"id-of-{name}"), epoch=epoch, doubt=doubt)


def left_of(planned: Rebuild, name: str) -> Left:
    (leftover,) = [leftover for leftover in planned.left if leftover.name == name]
    return leftover


def test_a_record_names_the_user_and_brings_what_opens_the_backups() -> None:
    planned = plan_rebuild([ADA], records=records(replace(ADA, user_alias="ada")))
    assert [recovered.user_alias for recovered in planned.instances] == ["ada"]
    assert [recovery_record.password for recovery_record in planned.records] == ["password"]
    assert planned.left == ()


def test_an_instance_whose_machine_is_off_or_gone_comes_from_its_record_as_it_was() -> None:
    kept = replace(ADA, user_alias="ada", status=InstanceStatus.SUSPENDED)
    off = Forgotten(ADA.machine_id, ADA.machine_name, "JustAVPS status: stopped")
    ended = replace(recovered(1), status=InstanceStatus.TERMINATED)
    for forgotten in ([], [off]):
        planned = plan_rebuild(forgotten, records=records(kept, ended))
        assert {recovered.id: recovered.status for recovered in planned.instances} == {
            kept.id: InstanceStatus.SUSPENDED,
            ended.id: InstanceStatus.TERMINATED,
        }
        assert not [leftover for leftover in planned.left if leftover.name == ADA.machine_name]


def test_the_machine_that_the_record_names_is_believed_among_those_that_claim_its_instance() -> None:
    liar = moved(ADA, LAST, 9, doubt="its token for the model router belongs to instance x")
    true = replace(ADA, epoch=2)
    planned = plan_rebuild([liar, moved(ADA, NEXT, 1), true], records=records(true))
    assert [recovered.machine_name for recovered in planned.instances] == [ADA.machine_name]
    assert "older than" in left_of(planned, NEXT).why
    assert str(left_of(planned, NEXT).hint) == f"hermesops fleet repair remove-orphan {NEXT}"
    assert "--contested" in str(left_of(planned, LAST).hint), "its words are not believed, nor is its memory destroyed"


def test_a_record_that_is_older_than_a_machine_that_proves_itself_settles_nothing() -> None:
    planned = plan_rebuild([ADA, moved(ADA, NEXT, 2)], records=records(ADA))
    assert planned.instances == ()


def test_nobody_becomes_another_user_or_ends_one_against_the_record() -> None:
    eve = replace(recovered(1), user_id=ADA.user_id)  # root on her machine wrote ada's id beside her own token
    planned = plan_rebuild([eve], records=records(replace(ADA, user_alias="ada"), recovered(1)))
    assert planned.instances == ()
    assert f"names user {recovered(1).user_id}" in left_of(planned, eve.machine_name).why
    assert f"instance {ADA.id}" in left_of(planned, "ada").why


def test_what_could_not_be_opened_is_listed_for_each_agent_with_a_command() -> None:
    records = Records(unread={ADA.id: "sealed with key k9"}, lost=frozenset({recovered(1).id}))
    planned = plan_rebuild([ADA, recovered(1)], aliases=["ada"], records=records)
    assert str(left_of(planned, "ada").hint) == "hermesops secrets check registry.key"
    hints = [str(leftover.hint) for leftover in planned.left if leftover.name == recovered(1).user_id]
    assert any(f"hermesops backup create {recovered(1).user_id}" in hint for hint in hints)
    away = plan_rebuild([ADA], aliases=["ada"], records=Records(problem="the object store does not answer"))
    assert "hermesops job run recovery-records" in str(left_of(away, "ada").hint)
    assert "does not answer" in left_of(away, "ada").why


def test_of_moved_agents_the_last_machine_that_is_not_fenced_is_named_first() -> None:
    claims = [moved(ADA, NEXT, 2), ADA, moved(ADA, LAST, 3)]
    serving = {claims[2].machine_id: True, claims[0].machine_id: False, ADA.machine_id: False}
    planned = plan_rebuild(claims, serving=serving)
    assert planned.instances == ()
    why = left_of(planned, LAST).why
    assert f"older: {NEXT} (epoch 2), {ADA.machine_name} (epoch 1)" in why
    assert str(left_of(planned, LAST).hint) == f"hermesops fleet repair adopt {LAST} --contested"
    for older in (NEXT, ADA.machine_name):
        assert f"older than {LAST} (epoch 3" in left_of(planned, older).why
        assert (
            str(left_of(planned, older).hint) == f"after adopting {LAST}: hermesops fleet repair remove-orphan {older}"
        )
    all_serve = {recovered.machine_id: True for recovered in claims}
    none_serves = {recovered.machine_id: False for recovered in claims}
    for unsure in ({}, all_serve, none_serves):
        planned = plan_rebuild(claims, serving=unsure)
        assert all("after verifying that it is the right one" in str(leftover.hint) for leftover in planned.left[:3])


def test_of_a_registry_that_is_whole_nothing_is_gone_and_its_users_have_their_names() -> None:
    planned = plan_rebuild([ADA], users={ADA.user_id: "ada"})
    assert ([recovered.user_alias for recovered in planned.instances], planned.left, planned.gone) == (["ada"], (), ())
    assert plan_rebuild([ADA]).gone
