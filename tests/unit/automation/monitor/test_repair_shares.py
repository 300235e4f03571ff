"""Machines that play dead again and again take no repairs away from those that are dead for the first time."""

from dataclasses import replace

from hermesops.automation.monitor.decide import Actions, LeaveAlone, Policy, decide
from hermesops.automation.monitor.facts import FleetFacts, InstanceFacts, PastRepair
from hermesops.model.fleet.health import Answer, Answers
from hermesops.model.fleet.overview import RepairKind
from hermesops.model.ids import CellName, InstanceId

CELL, OTHER = CellName("cell1"), CellName("cell2")
POLICY = Policy(Actions.ALL)


def dead(number: int, *, cell: CellName = CELL, silent_s: float = 300.0) -> InstanceFacts:
    name = f"user{number:03}"
    silence = Answers("ready", Answer.SILENT, Answer.SILENT)
    return InstanceFacts(InstanceId(name), name, cell, "ready", silent_s, silent_s, answers=silence)


def well(number: int, cell: CellName = CELL) -> InstanceFacts:
    return replace(dead(number, cell=cell), heartbeat_s=10.0, life_s=10.0, answers=None)


def reboots(facts: InstanceFacts, *began_s: float) -> list[PastRepair]:
    return [PastRepair(facts.id, RepairKind.REBOOT, began, began - 60.0) for began in began_s]


def repaired(instances: list[InstanceFacts], past: list[PastRepair]) -> tuple[list[InstanceId], dict[str, str]]:
    """Whom a pass repairs, and why it stopped."""
    verdict = decide(FleetFacts(instances, past), POLICY)
    return [repair.instance_id for repair in verdict.repairs], {str(key): why for key, why in verdict.stopped.items()}


def test_three_that_play_dead_twice_an_hour_do_not_use_up_their_cells_repairs() -> None:
    hostile, ada = [dead(number, silent_s=900.0) for number in range(3)], dead(9)
    past = [past_repair for machine in hostile for past_repair in reboots(machine, 1_000.0, 3_000.0)]
    assert repaired([ada, *map(well, range(10, 50)), *(replace(facts, life_s=10.0) for facts in hostile)], past) == (
        [ada.id],
        {},
    )


def test_those_never_repaired_come_first_though_others_are_silent_for_longer() -> None:
    before = [dead(number, silent_s=5_000.0) for number in range(3)]
    fresh = [dead(10 + number) for number in range(5)]
    past = [past_repair for machine in before for past_repair in reboots(machine, 80_000.0)]
    who, stopped = repaired([*before, *fresh, *map(well, range(20, 80))], past)
    assert who == [facts.id for facts in fresh]
    assert list(stopped) == ["cell_limit"]


def test_places_are_kept_for_those_not_repaired_within_a_day_and_that_is_no_alert() -> None:
    before = [dead(number) for number in range(6)]
    past = [past_repair for machine in before for past_repair in reboots(machine, 80_000.0)]
    fleet = FleetFacts([*before, *map(well, range(20, 80))], past)
    verdict = decide(fleet, POLICY)
    assert [facts.instance_id for facts in verdict.repairs] == [facts.id for facts in before[:3]]
    assert dict(verdict.stopped) == {}, "a page for the fleet, and the end of all rollouts, is not theirs to make"
    left = [decision for decision in verdict.decisions if isinstance(decision, LeaveAlone)]
    assert "the rest is for those not repaired lately" in left[0].why


def test_of_the_fleets_repairs_as_well() -> None:
    before = [dead(number, cell=CellName(f"cell{number}")) for number in range(20)]
    fresh = [dead(50 + number, cell=CellName(f"cell{50 + number}")) for number in range(20)]
    past = [past_repair for machine in before for past_repair in reboots(machine, 80_000.0)]
    everybody = [well(100 + number, CellName(f"cell{number % 60}")) for number in range(300)]
    who, _ = repaired([*before, *everybody], past)
    assert len(who) == 12
    who, _ = repaired([*before, *fresh, *everybody], past)
    assert who == [facts.id for facts in fresh]


def test_a_second_repair_of_one_is_within_its_own_limits_and_takes_no_place() -> None:
    ada = dead(0)
    others = [dead(number) for number in range(1, 3)]
    past = [*reboots(ada, 2_400.0), *(past_repair for other in others for past_repair in reboots(other, 700.0))]
    well_now = [replace(facts, life_s=10.0) for facts in others]
    who, _ = repaired([ada, *well_now, *map(well, range(20, 60))], past)
    assert who == [ada.id]


ALIVE = Answers("ready", Answer.YES, Answer.YES)


def remembered(number: int) -> InstanceFacts:
    """Sends no heartbeats, and answered when it was asked last, a pass ago."""
    return replace(dead(number, silent_s=900.0), answers=None, asked_s=14.0, was_alive=True)


def test_one_that_answers_though_it_sends_no_heartbeats_ends_no_repairs_of_others() -> None:
    """Whoever may keep a machine from sending heartbeats cannot make the fleet look silent."""
    mute, ada = [replace(dead(number, silent_s=900.0), answers=ALIVE) for number in range(3)], dead(9)
    assert repaired([*mute, ada, well(10)], []) == ([ada.id], {})
    all_dead = [replace(facts, answers=ada.answers) for facts in mute]
    assert list(repaired([*all_dead, ada, well(10)], [])[1]) == ["fleet_silent"]


def test_an_answer_of_before_is_no_page_and_no_reason_to_repair() -> None:
    """The network may have failed since: those that answered are asked again before others are repaired."""
    mute, ada = [remembered(number) for number in range(3)], dead(9)
    assert repaired([*mute, ada, well(10)], []) == ([], {})


def test_those_that_answered_are_asked_again_with_the_one_that_may_be_dead_and_after_it() -> None:
    mute, ada = [remembered(number) for number in range(3)], replace(dead(9), answers=None)
    instance_ids = [ask.instance_id for ask in decide(FleetFacts([*mute, ada, well(10)]), POLICY).asks]
    assert instance_ids == [ada.id, *(facts.id for facts in mute)]
    quiet = FleetFacts([*mute, well(10)])
    assert decide(quiet, POLICY).asks == (), "nobody else seems dead"
