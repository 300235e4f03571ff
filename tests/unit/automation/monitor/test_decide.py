"""Nothing is done to a machine that may be alive, that somebody works on, or beyond the limits."""

import math
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hermesops.automation.monitor.decide import (
    ASKS_AT_ONCE,
    GONE_S,
    REST_S,
    SETTLE_S,
    Actions,
    Alert,
    Ask,
    Continue,
    LeaveAlone,
    Policy,
    Reboot,
    Replace,
    Start,
    StopReason,
    decide,
)
from hermesops.automation.monitor.facts import FleetFacts, InstanceFacts, PastRepair, answered, span, suspicion
from hermesops.model.fleet.health import SILENT_S, Answer, Answers
from hermesops.model.fleet.overview import GONE, RepairKind
from hermesops.model.ids import CellName, InstanceId, OperationId
from tests.support.suite.cases import each_case

HOUR, DAY = 3_600.0, 86_400.0
CELL = CellName("cell1")
ADA = InstanceFacts(InstanceId("ada"), "ada", CELL, "ready", 120.0, 120.0, backup_s=7_200.0)
DEAD = replace(ADA, answers=Answers("ready", Answer.SILENT, Answer.SILENT))
OFF = replace(ADA, machine="stopped", answers=Answers("stopped", Answer.SILENT, Answer.SILENT))
LOST = replace(ADA, machine=GONE, gone_s=GONE_S, answers=Answers(GONE, Answer.SILENT, Answer.SILENT))
ALL = Policy(Actions.ALL)


def well(number: int, cell: CellName = CELL) -> InstanceFacts:
    name = f"user{number:03}"
    return InstanceFacts(InstanceId(name), name, cell, "ready", 10.0, 10.0)


def reboot(began_s: float, *, failed: bool = False, of: InstanceFacts = ADA) -> PastRepair:
    return PastRepair(of.id, RepairKind.REBOOT, began_s, began_s, failed)


def of_one(facts: InstanceFacts, *repairs: PastRepair, policy: Policy = ALL) -> tuple[str, str]:
    """The only decision about one instance of ten: what, and why."""
    [decision] = decide(FleetFacts((facts, *map(well, range(9))), repairs), policy).decisions
    assert not isinstance(decision, Continue)
    return type(decision).__name__, decision.why


@each_case(
    ("facts", "what", "why"),
    [
        (replace(ADA, life_s=95.0), "Ask", "no heartbeat for 95 s"),
        (replace(ADA, asked_s=20.0), "LeaveAlone", "no heartbeat for 2 min; it was asked 20 s ago"),
        (replace(ADA, machine="stopped", life_s=None), "Ask", "JustAVPS lists its machine as stopped"),
        (replace(ADA, machine=GONE, life_s=95.0), "Ask", "no heartbeat for 95 s, JustAVPS lists its machine as gone"),
        (
            DEAD,
            "Reboot",
            "no heartbeat for 2 min, and it answers neither by toolbox nor by proxy",
        ),
        (
            OFF,
            "Start",
            "its machine is switched off, no heartbeat for 2 min, JustAVPS lists its machine as stopped",
        ),
        (LOST, "Replace", "its machine is gone at JustAVPS for 60 s; its newest backup is of 2 h ago"),
        (replace(LOST, gone_s=GONE_S - 1), "LeaveAlone", "JustAVPS has not listed its machine for less than 60 s"),
        (replace(LOST, gone_s=None), "LeaveAlone", "JustAVPS has not listed its machine for less than 60 s"),
        (
            replace(LOST, backup_s=None),
            "Alert",
            "its machine is gone at JustAVPS for 60 s, and there is no backup of it",
        ),
        (
            replace(DEAD, answers=Answers("ready", Answer.YES, Answer.SILENT)),
            "Alert",
            "monitoring is broken: no heartbeat for 2 min, though it answers by toolbox",
        ),
        (
            replace(DEAD, answers=Answers("error", Answer.YES, Answer.YES)),
            "Alert",
            "monitoring is broken: no heartbeat for 2 min, though it answers by toolbox and proxy",
        ),
        (replace(DEAD, answers=Answers("ready", Answer.SILENT)), "LeaveAlone", "could not be asked by both ways"),
        (replace(DEAD, answers=Answers("")), "LeaveAlone", "could not be asked by both ways"),
        (
            replace(DEAD, answers=Answers("error", Answer.SILENT, Answer.SILENT)),
            "LeaveAlone",
            "no heartbeat for 2 min; JustAVPS calls its machine error: it may recover by itself",
        ),
        (
            replace(DEAD, machine="stopped", life_s=None),
            "LeaveAlone",
            "JustAVPS lists its machine as stopped; it never sent a heartbeat",
        ),
    ],
)
def test_what_is_done_follows_from_every_sign(facts: InstanceFacts, what: str, why: str) -> None:
    text, message = of_one(facts)
    assert text == what
    assert why in message


@each_case(
    "facts",
    [
        well(1),
        replace(ADA, life_s=SILENT_S),
        replace(ADA, life_s=-3.0),
        replace(ADA, life_s=None),
        replace(ADA, life_s=math.nan),
        replace(ADA, life_s=math.inf),
        replace(DEAD, busy="operation 1 (resize) has not ended"),
        replace(OFF, life_s=20.0),
    ],
)
def test_what_does_not_seem_dead_gets_no_decision(facts: InstanceFacts) -> None:
    assert decide(FleetFacts((facts,)), ALL).decisions == ()


@each_case(
    ("actions", "facts", "what"),
    [
        (Actions.NONE, DEAD, Alert),
        (Actions.NONE, OFF, Alert),
        (Actions.NONE, LOST, Alert),
        (Actions.RESTART, DEAD, Reboot),
        (Actions.RESTART, OFF, Start),
        (Actions.RESTART, LOST, Alert),
        (Actions.ALL, LOST, Replace),
    ],
)
def test_no_more_is_done_than_the_settings_allow(actions: Actions, facts: InstanceFacts, what: type) -> None:
    text, why = of_one(facts, policy=Policy(actions))
    assert text == what.__name__
    assert ("monitoring.actions" in why) == (what is Alert)


def test_where_heartbeats_are_not_known_only_a_stopped_machine_is_started() -> None:
    for facts in (DEAD, OFF, LOST):
        verdict = decide(FleetFacts((facts, *map(well, range(9))), knows_heartbeats=False), ALL)
        assert [type(decision) for decision in verdict.decisions] == (
            [] if facts is DEAD else [Start if facts is OFF else LeaveAlone]
        )


def test_where_live_machines_do_not_answer_either_only_a_stopped_machine_is_started() -> None:
    for facts in (DEAD, OFF, LOST):
        verdict = decide(FleetFacts((facts, *map(well, range(9))), asking_works=False), ALL)
        assert [type(decision) for decision in verdict.decisions] == [Start if facts is OFF else LeaveAlone]
        assert (StopReason.ASKING_BROKEN in verdict.stopped) == (facts is not OFF)


def test_above_a_share_of_the_fleet_nothing_is_done_but_to_ask() -> None:
    fleet = [replace(well(number), life_s=120.0) for number in range(3)] + [well(number) for number in range(3, 14)]
    verdict = decide(FleetFacts(fleet, unfinished=(OperationId("op"),)), ALL)
    assert [type(decision) for decision in verdict.decisions] == [Ask] * 3
    assert "3 of 14 instances seem dead at once" in verdict.stopped[StopReason.FLEET_SILENT]
    dead = FleetFacts([replace(facts, answers=DEAD.answers) if facts.life_s == 120.0 else facts for facts in fleet])
    assert {type(decision) for decision in decide(dead, ALL).decisions} == {LeaveAlone}
    assert decide(FleetFacts([*fleet, well(14)], unfinished=(OperationId("op"),)), ALL).decisions[0] == Continue(
        OperationId("op")
    )
    one_of_one = decide(FleetFacts([DEAD]), ALL)
    assert (len(one_of_one.repairs), one_of_one.stopped) == (1, {})


def test_a_cell_that_is_lost_is_not_repaired_machine_by_machine() -> None:
    lost = CellName("cell2")
    silent = [replace(well(number, lost), life_s=120.0, answers=DEAD.answers) for number in range(3)]
    verdict = decide(FleetFacts([*silent, DEAD, *(well(number) for number in range(3, 40))]), ALL)
    assert [repair.instance_id for repair in verdict.repairs] == [DEAD.id]
    assert verdict.stopped == {StopReason.CELL_SILENT: "too many of cell2 seem dead at once"}


def test_an_abandoned_repair_is_not_continued_by_a_monitor_that_may_do_nothing() -> None:
    assert decide(FleetFacts((), unfinished=(OperationId("op"),)), Policy(Actions.NONE)).decisions == ()


@each_case(
    ("facts", "repairs", "what", "why"),
    [
        (DEAD, [reboot(SETTLE_S - 1)], "LeaveAlone", "it was repaired 3 min ago"),
        (DEAD, [reboot(REST_S - 1)], "LeaveAlone", "the next time is after 10 min"),
        (DEAD, [reboot(REST_S)], "Reboot", ""),
        (DEAD, [reboot(REST_S), reboot(HOUR)], "LeaveAlone", "it was rebooted 2 times within an hour"),
        (DEAD, [reboot(1_201), reboot(HOUR + 1)], "Reboot", ""),
        (DEAD, [reboot(1_199), reboot(HOUR + 1)], "LeaveAlone", "the next time is after 20 min"),
        (DEAD, [reboot(2_300), reboot(2 * HOUR), reboot(3 * HOUR)], "LeaveAlone", "the next time is after 40 min"),
        (DEAD, [reboot(900, failed=True), reboot(1_800, failed=True)], "Replace", "2 reboots did not help"),
        (DEAD, [reboot(900), reboot(1_800, failed=True)], "LeaveAlone", "2 times within an hour"),
        (
            DEAD,
            [
                reboot(900, failed=True),
                reboot(1_800, failed=True),
                PastRepair(ADA.id, RepairKind.REPLACE, DAY, 900.0, has_failed=True),
            ],
            "LeaveAlone",
            "it was replaced 1 time within a day",
        ),
        (LOST, [PastRepair(ADA.id, RepairKind.REPLACE, HOUR, 1_000.0)], "LeaveAlone", "1 time within a day"),
        (DEAD, [reboot(60, of=well(1))], "Reboot", ""),
    ],
)
def test_the_limits_of_one_instance_hold(facts: InstanceFacts, repairs: list[PastRepair], what: str, why: str) -> None:
    text, message = of_one(facts, *repairs)
    assert (text, why in message) == (what, True), message


def test_the_limits_of_a_cell_and_of_the_fleet_hold_within_a_pass_too() -> None:
    policy = Policy(silent_share=1.0, cell_repairs_per_hour=2, repairs_per_hour=5)
    cells = [CellName(f"cell{number % 3}") for number in range(30)]
    dead = [
        replace(well(number, cell), life_s=120.0 + number, answers=DEAD.answers) for number, cell in enumerate(cells)
    ]
    verdict = decide(FleetFacts(dead), policy)
    assert len(verdict.repairs) == 5
    assert set(verdict.stopped) == {StopReason.CELL_LIMIT, StopReason.FLEET_LIMIT}
    past = [reboot(100.0, of=facts) for facts in dead[:4]]
    assert len(decide(FleetFacts(dead, past), policy).repairs) == 1


def test_those_silent_for_longest_are_asked_first() -> None:
    silent = [replace(well(number), life_s=100.0 + number) for number in range(50)]
    verdict = decide(FleetFacts(silent), ALL)
    assert [ask.instance_id for ask in verdict.asks] == [facts.id for facts in reversed(silent)][:ASKS_AT_ONCE]
    fleet_facts = answered(FleetFacts(silent), {silent[0].id: Answers("ready")}, asking_works=False)
    assert (fleet_facts.instances[0].answers, fleet_facts.instances[1].answers, fleet_facts.asking_works) == (
        Answers("ready"),
        None,
        False,
    )


def test_lengths_of_time_are_told_in_words() -> None:
    assert [span(s) for s in (-1, 0, 119, 120, 7_199, 7_200, 200_000)] == [
        "0 s",
        "0 s",
        "119 s",
        "2 min",
        "120 min",
        "2 h",
        "2 d",
    ]


ages = st.one_of(st.none(), st.sampled_from([-5.0, 0.0, 90.0, 91.0, 600.0, math.nan, math.inf]), st.floats(0, 1e6))
answers = st.one_of(
    st.none(),
    st.builds(
        Answers,
        st.sampled_from(["", "ready", "stopped", "error", "provisioning", "unknown", GONE]),
        st.sampled_from(Answer),
        st.sampled_from(Answer),
    ),
)


@st.composite
def fleets(draw: st.DrawFn) -> FleetFacts:
    count = draw(st.integers(1, 12))
    instances = [
        InstanceFacts(
            InstanceId(f"i{number}"),
            f"i{number}",
            CellName(f"cell{draw(st.integers(1, 3))}"),
            draw(st.sampled_from(["", "ready", "stopped", "error", GONE])),
            life_s=draw(ages),
            gone_s=draw(ages),
            busy=draw(st.sampled_from(["", "", "", "busy"])),
            backup_s=draw(ages),
            asked_s=draw(st.sampled_from([None, 10.0])),
            answers=draw(answers),
        )
        for number in range(count)
    ]
    some = st.builds(
        PastRepair,
        st.sampled_from([facts.id for facts in instances]),
        st.sampled_from(RepairKind),
        st.floats(0, 2 * DAY),
        st.one_of(st.none(), st.floats(0, HOUR)),
        st.booleans(),
    )
    repairs = draw(st.lists(some, max_size=12))
    return FleetFacts(
        instances,
        repairs,
        knows_heartbeats=draw(st.booleans()),
        asking_works=draw(st.sampled_from([None, True, False])),
    )


policies = st.builds(
    Policy,
    st.sampled_from(Actions),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 6),
    st.floats(0, 1),
)


@given(fleets(), policies)
def test_no_fleet_makes_it_break_a_rule(fleet: FleetFacts, policy: Policy) -> None:
    verdict = decide(fleet, policy)
    by_id = {facts.id: facts for facts in fleet.instances}
    repaired = verdict.repairs
    assert len({decision.instance_id for decision in repaired}) == len(repaired)
    idle = sum(not facts.busy for facts in fleet.instances)
    # Machines that answer do not count: else anyone who blocks heartbeats could stop all repairs.
    suspects = (facts for facts in fleet.instances if suspicion(facts, knows_heartbeats=fleet.knows_heartbeats))
    seem_dead = [facts for facts in suspects if not facts.answered]
    if len(seem_dead) > max(1, math.floor(policy.silent_share * idle)):
        assert not repaired
    for decision in repaired:
        facts = by_id[decision.instance_id]
        assert policy.actions is not Actions.NONE
        assert not facts.busy
        assert facts.answers is not None
        assert facts.answers.is_silent
        assert not facts.answers.is_alive
        assert facts.life_s is None or not facts.life_s <= SILENT_S
        of_it = [past for past in fleet.repairs if past.instance_id == facts.id]
        assert not any(
            (past.began_s if past.ended_s is None else past.ended_s) < SETTLE_S for past in of_it[:1] if len(of_it) == 1
        )
        if isinstance(decision, Start):
            assert facts.answers.machine == "stopped"
        else:
            assert fleet.knows_heartbeats
            assert fleet.asking_works is not False
            assert facts.answers.machine in {"ready", GONE}
        if isinstance(decision, Reboot):
            assert facts.silence_s is not None
        if isinstance(decision, Replace):
            assert policy.actions is Actions.ALL
            assert facts.backup_s is not None
            replaced = [past for past in of_it if past.kind is RepairKind.REPLACE and past.began_s <= DAY]
            assert len(replaced) < policy.replacements_per_day
        else:
            rebooted = [past for past in of_it if past.kind is RepairKind.REBOOT and past.began_s <= HOUR]
            assert len(rebooted) < policy.reboots_per_hour
    lately = {past.instance_id for past in fleet.repairs if past.began_s <= HOUR}  # a second one is in its own limits
    if repaired:
        lately |= {decision.instance_id for decision in repaired}
        assert len(lately) <= policy.repairs_per_hour
        in_cell = Counter(by_id[instance_id].cell for instance_id in lately)
        for cell in {by_id[decision.instance_id].cell for decision in repaired}:
            assert in_cell[cell] <= policy.cell_repairs_per_hour
