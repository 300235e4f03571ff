"""The model that random kills are compared with says what operators are promised, and leads everywhere."""

from dataclasses import replace

import pytest

from tests.support.crash.expected_instance import Act, ExpectedInstance, Phase, acts_of

RUNNING = ExpectedInstance("ada", Phase.RUNNING, has_machine=True, memory=("sails",))


def act(kind: str, instance: ExpectedInstance) -> Act:
    [act] = [act for act in acts_of(instance) if act.kind == kind]
    return act


def reachable() -> set[tuple[Phase, bool, str, str]]:
    pairs: set[tuple[Phase, bool, str, str]] = set()
    todo = [ExpectedInstance("ada")]
    while todo:
        instance = todo.pop()
        key = (instance.phase, instance.has_machine, instance.plan, instance.region)
        if key not in pairs:
            pairs.add(key)
            todo += [act.after for act in acts_of(instance)]
    return pairs


def test_every_phase_is_reached_with_every_plan_and_region() -> None:
    pairs = reachable()
    for phase in (Phase.RUNNING, Phase.SUSPENDED, Phase.ENDING):
        assert {(plan, region) for each, _, plan, region in pairs if each is phase} == {
            (plan, region) for plan in ("light", "heavy") for region in ("hel1", "nbg1")
        }
    assert {has_machine for phase, has_machine, _, _ in pairs if phase is Phase.SUSPENDED} == {True, False}
    assert not [each for each in pairs if each[0] is Phase.RUNNING and not each[1]]


def test_every_act_is_named_once_and_says_whose_it_is() -> None:
    for phase in Phase:
        acts = acts_of(replace(RUNNING, phase=phase, newest=(), saved_id="1f"))
        kinds = [act.kind for act in acts]
        assert len(kinds) == len(set(kinds)) > 0
        assert all("ada" in act.words and act.after.user == "ada" for act in acts)


def test_what_was_taught_after_a_backup_is_gone_after_its_restore_alone() -> None:
    saved = act("backup", RUNNING).after.saved_as("1f").taught("writes")
    assert act("restore", saved).after.memory == ("sails",)
    moved = act("move", saved).after.taught("sings")
    assert moved.memory == ("sails", "writes", "sings")
    assert act("restore", moved).after.memory == ("sails", "writes"), "a move makes a backup, too"
    assert act("restore of a chosen backup", moved).after.memory == ("sails",)
    assert act("restore of a lost machine", moved).after.memory == ("sails", "writes")


def test_a_restore_is_repeated_without_undoing_it() -> None:
    saved = act("backup", RUNNING).after.taught("writes")
    for kind in ("restore", "restore onto new machine"):
        once = act(kind, saved).after
        assert act(kind, once).after.memory == once.memory == ("sails",)


@pytest.mark.parametrize("way", ["suspend", "suspend, removed", "terminate"])
def test_who_is_at_rest_keeps_its_memory_and_is_woken(way: str) -> None:
    resting = act(way, RUNNING).after
    assert resting.memory == resting.newest == ("sails",)
    assert act("provision refused", resting).after == resting
    assert act("resume", resting).after == replace(RUNNING, newest=("sails",))


def test_who_ended_begins_anew_and_kept_machines_stay() -> None:
    ended = act("terminate now", act("move, old machine kept", RUNNING).after).after
    assert (ended.phase, ended.memory, ended.newest, ended.previous_machines) == (Phase.ABSENT, (), None, 1)
    assert act("provision", ended).after.previous_machines == 1


def test_a_plan_grows_in_place_and_shrinks_on_a_new_machine_only() -> None:
    grown = act("resize", RUNNING).after
    assert grown.plan == "heavy"
    assert act("resize down refused", grown).after.plan == "heavy"
    assert act("resize onto new machine", grown).after.plan == "light"
