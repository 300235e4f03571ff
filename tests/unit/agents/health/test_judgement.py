"""One judgement from recorded facts: each condition once, and no hostile figure that makes an instance healthy."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.health.judgement import (
    ANSWER_S,
    LISTING_S,
    AgentFact,
    HealthFacts,
    MachineFact,
    age_of,
    agent_facts,
    ago,
    judge,
)
from hermesops.agents.health.samples.sample import HealthSample
from hermesops.model.fleet.health import SILENT_S, Condition, GatewayHealth
from hermesops.model.fleet.overview import GONE
from hermesops.model.fleet.vitals import TurnOutcome
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
READY = MachineFact("ready", 20.0)
OK = AgentFact(GatewayHealth.OK, 12.0)
NO_WORD = "without a word on its gateway: runbook metrics-incomplete"
NO_ANSWER = "no answer of its gateway in the last 90 s is recorded"


def agent(gateway: GatewayHealth, age_s: float = 12.0) -> HealthFacts:
    return HealthFacts(READY, (AgentFact(gateway, age_s),))


@each_case(
    ("facts", "condition", "reasons"),
    [
        (HealthFacts(), "unknown", (NO_ANSWER, "JustAVPS was never asked")),
        (HealthFacts(READY), "unknown", (NO_ANSWER, "its machine was ready when JustAVPS was asked 20 s ago")),
        (
            HealthFacts(MachineFact("", 200.0)),
            "unknown",
            (NO_ANSWER, "its machine is newer than what JustAVPS listed 3 min ago"),
        ),
        (
            HealthFacts(MachineFact("stopped", 20.0)),
            "down",
            ("its machine was stopped when JustAVPS was asked 20 s ago",),
        ),
        (HealthFacts(MachineFact(GONE, 20.0)), "down", ("its machine was gone when JustAVPS was asked 20 s ago",)),
        (
            HealthFacts(MachineFact(GONE, LISTING_S + 1)),
            "unknown",
            (NO_ANSWER, "its machine was gone when JustAVPS was asked 10 min ago"),
        ),
        (
            HealthFacts(MachineFact("stopped", 12.0), (OK,)),
            "down",
            ("its machine was stopped when JustAVPS was asked 12 s ago",),
        ),
        (
            HealthFacts(MachineFact("stopped", 0.0), (AgentFact(GatewayHealth.OK, -3.0),)),
            "down",
            ("its machine was stopped when JustAVPS was asked 0 s ago",),
        ),
        (HealthFacts(MachineFact("stopped", 20.0), (OK,)), "healthy", ("the gateway answered 12 s ago",)),
        (HealthFacts(MachineFact("unknown", 1.0), (OK,)), "healthy", ("the gateway answered 12 s ago",)),
        (HealthFacts(None, (OK,)), "healthy", ("the gateway answered 12 s ago",)),
        (agent(GatewayHealth.DEGRADED), "degraded", ("the gateway calls itself degraded, 12 s ago",)),
        (agent(GatewayHealth.DRAINING), "degraded", ("the gateway is draining and takes no new work, 12 s ago",)),
        (agent(GatewayHealth.REFUSED), "down", ("the gateway rejects its API key, 12 s ago",)),
        (agent(GatewayHealth.SILENT), "down", ("the gateway does not answer, 12 s ago",)),
        (
            agent(GatewayHealth.OK, ANSWER_S + 1),
            "unknown",
            (NO_ANSWER, "its machine was ready when JustAVPS was asked 20 s ago"),
        ),
        (
            HealthFacts(None, (OK,), SILENT_S + 40),
            "degraded",
            ("no heartbeat for 130 s: 4 missed, one is due every 30 s, though it answered 12 s ago",),
        ),
        (HealthFacts(None, (OK,), SILENT_S), "healthy", ("the gateway answered 12 s ago",)),
        (
            HealthFacts(READY, (), SILENT_S),
            "unknown",
            (
                NO_ANSWER,
                f"a heartbeat came 90 s ago {NO_WORD}",
                "its machine was ready when JustAVPS was asked 20 s ago",
            ),
        ),
        (
            HealthFacts(READY, (), SILENT_S + 1),
            "silent",
            ("no heartbeat for 91 s: 3 missed, one is due every 30 s",),
        ),
        (
            HealthFacts(MachineFact("error", 20.0), (), SILENT_S + 1),
            "down",
            ("its machine was error when JustAVPS was asked 20 s ago",),
        ),
        (
            HealthFacts(MachineFact("stopped", 20.0), (), 10.0),
            "unknown",
            (
                NO_ANSWER,
                f"a heartbeat came 10 s ago {NO_WORD}",
                "its machine was stopped when JustAVPS was asked 20 s ago",
            ),
        ),
        (HealthFacts(READY, is_unanswered=True), "silent", ("hermes-node did not answer through the toolbox",)),
        (
            HealthFacts(READY, (), 10.0, is_unanswered=True),
            "degraded",
            ("hermes-node did not answer through the toolbox, though a heartbeat came 10 s ago",),
        ),
        (
            HealthFacts(READY, (), 300.0, is_unanswered=True),
            "silent",
            (
                "no heartbeat for 300 s: 10 missed, one is due every 30 s",
                "hermes-node did not answer through the toolbox",
            ),
        ),
        (
            HealthFacts(READY, (OK,), is_unanswered=True),
            "degraded",
            ("hermes-node did not answer through the toolbox, though its gateway answered 12 s ago",),
        ),
        (
            HealthFacts(READY, (AgentFact(GatewayHealth.SILENT, 12.0),), is_unanswered=True),
            "down",
            ("the gateway does not answer, 12 s ago",),
        ),
        (HealthFacts(READY, (OK,), node_problem="its gateway is fenced"), "down", ("its gateway is fenced",)),
    ],
)
def test_a_condition_and_its_reasons(facts: HealthFacts, condition: str, reasons: tuple[str, ...]) -> None:
    judgement = judge(facts)
    assert (judgement.condition.value, judgement.reasons) == (condition, reasons)


def test_a_gateway_that_was_restarted_or_whose_turn_failed_is_degraded() -> None:
    samples = (replace(OK, restarts=4), replace(OK, age_s=42.0, restarts=3), replace(OK, age_s=72.0, restarts=2))
    assert judge(HealthFacts(READY, samples)).reasons == ("the gateway restarted 2 times within 60 s",)
    assert judge(HealthFacts(READY, samples[:2])).reasons == ("the gateway restarted once within 30 s",)
    assert judge(HealthFacts(READY, samples[:1])).condition is Condition.HEALTHY, "restarts of long ago"
    failed, answered = (replace(OK, age_s=40.0, turn=turn) for turn in (TurnOutcome.FAILED, TurnOutcome.ANSWERED))
    assert judge(HealthFacts(READY, (OK, failed))).reasons == ("its last turn failed, 40 s ago",)
    later = replace(answered, age_s=20.0)
    assert judge(HealthFacts(READY, (OK, failed, later))).condition is Condition.HEALTHY


def test_the_newest_answer_counts_and_of_two_at_once_the_worse() -> None:
    for gateway in set(GatewayHealth) - {GatewayHealth.OK}:
        bad, was_bad = AgentFact(gateway, 12.0), AgentFact(gateway, 13.0)
        for answers in ((OK, bad), (bad, OK)):
            assert judge(HealthFacts(READY, answers)).condition is not Condition.HEALTHY
        assert judge(HealthFacts(READY, (was_bad, OK))).condition is Condition.HEALTHY


@pytest.mark.parametrize(
    ("facts", "condition", "doubt"),
    [
        (
            HealthFacts(READY, (OK, AgentFact(GatewayHealth.OK, -40.0))),
            "unknown",
            "an answer of its gateway does not count: it is dated 40 s in the future",
        ),
        (
            HealthFacts(READY, (OK,), math.nan),
            "unknown",
            "its last heartbeat does not count: it is dated never",
        ),
        (
            HealthFacts(MachineFact("ready", -math.inf), (OK,)),
            "unknown",
            "the listing of its machine does not count: it is dated never",
        ),
        (
            HealthFacts(MachineFact("stopped", 20.0), (), -90.0),
            "down",
            "its last heartbeat does not count: it is dated 90 s in the future",
        ),
    ],
)
def test_a_fact_of_an_impossible_age_is_named_and_nothing_is_healthy(
    facts: HealthFacts, condition: str, doubt: str
) -> None:
    judgement = judge(facts)
    assert judgement.condition.value == condition
    assert doubt in judgement.reasons


def test_clocks_of_two_computers_may_differ_by_some_seconds() -> None:
    assert judge(HealthFacts(READY, (AgentFact(GatewayHealth.OK, -4.0),))).reasons == ("the gateway answered 0 s ago",)


AGES = st.one_of(st.floats(-200.0, 1_000.0), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 90.0, 600.0]))
AGENTS = st.lists(
    st.builds(
        AgentFact,
        st.sampled_from(GatewayHealth),
        AGES,
        st.integers(-3, 2**70),
        st.sampled_from(TurnOutcome),
    ),
    max_size=5,
)
FACTS = st.builds(
    HealthFacts,
    st.none() | st.builds(MachineFact, st.sampled_from(["ready", "stopped", "error", GONE, "unknown", ""]), AGES),
    AGENTS.map(tuple),
    st.none() | AGES,
    st.sampled_from(["", "", "its gateway is fenced"]),
    st.booleans(),
)


@given(FACTS)
def test_healthy_needs_a_recent_good_answer_and_nothing_against_it(facts: HealthFacts) -> None:
    judgement = judge(facts)
    assert all(judgement.reasons)
    assert judgement.reasons
    if judgement.condition is not Condition.HEALTHY:
        return
    ages = [*(agent_fact.age_s for agent_fact in facts.agent)]
    ages += [facts.machine.age_s] if facts.machine else []
    ages += [facts.heartbeat_age_s] if facts.heartbeat_age_s is not None else []
    assert all(math.isfinite(age) and age >= -5 for age in ages)
    newest = min(facts.agent, key=lambda agent_fact: agent_fact.age_s)
    assert newest.age_s <= ANSWER_S
    assert all(agent_fact.gateway is GatewayHealth.OK for agent_fact in facts.agent if agent_fact.age_s == newest.age_s)
    assert facts.heartbeat_age_s is None or facts.heartbeat_age_s <= SILENT_S
    assert not facts.is_unanswered
    assert not facts.node_problem


@given(FACTS)
def test_silent_needs_three_missed_heartbeats_or_an_unanswered_question(facts: HealthFacts) -> None:
    if judge(facts).condition is Condition.SILENT:
        beat = facts.heartbeat_age_s
        assert facts.is_unanswered or (beat is not None and SILENT_S < beat < math.inf)


@given(FACTS, st.randoms(use_true_random=False))
def test_order_and_duplicates_of_answers_change_nothing(facts: HealthFacts, random: Random) -> None:
    again = [*facts.agent, *facts.agent]
    random.shuffle(again)
    assert judge(replace(facts, agent=tuple(again))).condition is judge(facts).condition


@given(FACTS, st.floats(LISTING_S + 6, 1e6))
def test_facts_that_grew_old_leave_nothing_but_silence_or_the_unknown(facts: HealthFacts, passed_s: float) -> None:
    old = HealthFacts(
        replace(facts.machine, age_s=abs(facts.machine.age_s) + passed_s) if facts.machine else None,
        tuple(replace(agent_fact, age_s=abs(agent_fact.age_s) + passed_s) for agent_fact in facts.agent),
        None if facts.heartbeat_age_s is None else abs(facts.heartbeat_age_s) + passed_s,
    )
    assert judge(old).condition in {Condition.UNKNOWN, Condition.SILENT}


def test_stored_samples_are_facts_and_what_cannot_be_read_is_none() -> None:
    sample = HealthSample(
        at=NOW - timedelta(seconds=30),
        since=None,
        release="r",
        gateway=GatewayHealth.OK,
        restarts=2,
        errors=None,
        memory_bytes=None,
        queue_age_s=None,
        turn_s=1.0,
        turn_ok=False,
    )
    facts_read = agent_facts([sample.to_json(), "{}", '{"at": NaN}', ""], NOW)
    assert facts_read == (AgentFact(GatewayHealth.OK, 30.0, 2, TurnOutcome.FAILED),)
    [silent] = agent_facts([replace(sample, gateway=GatewayHealth.SILENT, turn_s=None).to_json()], NOW)
    assert silent.turn is TurnOutcome.NOT_TAKEN


@each_case(
    ("age_s", "words"),
    [(-3.0, "0 s ago"), (119.0, "119 s ago"), (120.0, "2 min ago"), (7_300.0, "2 h ago"), (200_000.0, "2 d ago")],
)
def test_ages_in_words(age_s: float, words: str) -> None:
    assert ago(age_s) == words


def test_an_age_is_negative_in_the_future() -> None:
    assert age_of(NOW + timedelta(seconds=7), NOW) == -7.0


def test_heartbeats_that_nobody_read_are_not_missed() -> None:
    beat = 12 * 60.0
    cases = {
        "a monitor reads them": (HealthFacts(READY, (), beat), Condition.SILENT),
        "none has read them since": (HealthFacts(READY, (), beat, unread_s=beat - SILENT_S), Condition.UNKNOWN),
        "missed before": (HealthFacts(READY, (), beat, unread_s=beat - SILENT_S - 1), Condition.SILENT),
        "never read": (HealthFacts(READY, (), beat, unread_s=math.inf), Condition.UNKNOWN),
        "asked just now": (HealthFacts(READY, (), beat, unread_s=math.inf, is_unanswered=True), Condition.SILENT),
        "answered": (HealthFacts(READY, (OK,), beat, unread_s=math.inf), Condition.HEALTHY),
    }
    for name, (facts, condition) in cases.items():
        assert judge(facts).condition is condition, name
    why = judge(HealthFacts(READY, (), beat, unread_s=11 * 60.0)).reasons
    assert (
        why[1]
        == "heartbeats are read by no monitor: the last one looked 11 min ago, its last heartbeat came 12 min ago"
    )
