"""Changed instances beside untouched ones: who is asked what, and what counts as before and after."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.health.canary_watch import CONTROLS, CanaryObservation, CanaryWatch
from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.health.samples.kept import StoredHealthSamples
from hermesops.agents.health.samples.sample import HealthSample, Question, figures_of
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.vitals import ChangeSpan, Source, Vital, Vitals
from hermesops.model.ids import InstanceId

BEGIN = datetime(2027, 1, 15, 8, tzinfo=UTC)
ADA, BOB, CLEO, DAN = (InstanceId(name) for name in ("ada", "bob", "cleo", "dan"))


def spans(changed: Mapping[InstanceId, datetime]) -> dict[InstanceId, ChangeSpan]:
    return {each: ChangeSpan(timestamp, timestamp) for each, timestamp in changed.items()}


class Samples(StoredHealthSamples):
    """Samples in memory."""

    def __init__(self) -> None:
        self.kept: dict[InstanceId, list[HealthSample]] = {}

    async def add(self, read: Mapping[InstanceId, HealthSample]) -> None:
        for instance_id, sample in read.items():
            self.kept.setdefault(instance_id, []).append(sample)

    async def since(
        self, instances: Collection[InstanceId], timestamp: datetime
    ) -> dict[InstanceId, Sequence[HealthSample]]:
        return {
            instance_id: [sample for sample in self.kept.get(instance_id, []) if sample.at >= timestamp]
            for instance_id in instances
        }


@dataclass
class Fleet(Sampler):
    """Nodes, their stored samples, and a clock.

    Attributes:
        memory: Bytes of each agent.
        silent: Whose node does not answer.
        turnless: Whose agent takes no turns.
        slow: Whose node was asked and has not answered yet.
        own: Whose agent asks its user's own provider, so that it takes no turn for the platform.
    """

    now: datetime = BEGIN
    memory: dict[InstanceId, int] = field(default_factory=dict)
    silent: set[InstanceId] = field(default_factory=set)
    turnless: set[InstanceId] = field(default_factory=set)
    slow: set[InstanceId] = field(default_factory=set)
    own: set[InstanceId] = field(default_factory=set)
    asked: dict[InstanceId, Question] = field(default_factory=dict)
    store: Samples = field(default_factory=Samples)

    def is_asking(self, instance_id: InstanceId) -> bool:
        return instance_id in self.slow

    async def sample(self, questions: Mapping[InstanceId, Question]) -> dict[InstanceId, HealthSample | None]:
        self.asked = dict(questions)
        return {
            instance_id: self._reading(instance_id, question)
            for instance_id, question in questions.items()
            if instance_id not in self.slow
        }

    def _reading(self, whose: InstanceId, question: Question) -> HealthSample | None:
        if whose in self.silent:
            return None
        turn_s = 1.0 if question.turn_s and whose not in self.own else None
        is_taken = turn_s is not None and whose not in self.turnless
        memory = self.memory.get(whose, 100)
        figures = (self.now, question.since, "r", GatewayHealth.OK, 0, 0, memory, 0.0, turn_s)
        return HealthSample(*figures, turn_ok=is_taken, takes_turns=whose not in self.own)

    async def watch(
        self, changed: Mapping[InstanceId, datetime], untouched: Sequence[InstanceId], *, after_s: float = 60
    ) -> CanaryObservation:
        """Look some seconds later; each change took no time."""
        self.now += timedelta(seconds=after_s)
        return await CanaryWatch(self, self.store, lambda: self.now).watch(spans(changed), untouched)


async def test_each_is_compared_with_itself_before_and_others_at_the_same_times() -> None:
    fleet = Fleet()
    assert await fleet.watch({}, [ADA, BOB]) == CanaryObservation(), "nothing to compare yet, but looked at"
    changed = {ADA: fleet.now + timedelta(seconds=1)}
    fleet.memory = {ADA: 300, BOB: 110}
    watch = await fleet.watch(changed, [BOB])
    assert figures_of(Vital.MEMORY, watch.changed) == {ADA: (100.0, 300.0)}
    assert figures_of(Vital.MEMORY, watch.controls) == {BOB: (100.0, 110.0)}
    assert (watch.liveness_of[ADA].answers, watch.liveness_of[ADA].exercised, watch.liveness_of[ADA].failed) == (
        True,
        True,
        "",
    )


async def test_a_runner_that_was_resumed_still_knows_the_time_before() -> None:
    first = Fleet()
    await first.watch({}, [ADA])
    resumed = Fleet(now=first.now, store=first.store)
    watch = await resumed.watch({ADA: first.now}, [])
    assert set(figures_of(Vital.TURN_LATENCY, watch.changed)) == {ADA}


async def test_who_was_never_looked_at_before_has_no_pair() -> None:
    watch = await Fleet().watch({ADA: BEGIN}, [])
    assert figures_of(Vital.MEMORY, watch.changed) == {}
    assert watch.changed[ADA].before is None


async def test_who_gives_no_answer_has_no_after_however_good_it_was() -> None:
    fleet = Fleet()
    await fleet.watch({}, [ADA])
    changed = {ADA: fleet.now}
    await fleet.watch(changed, [])
    fleet.silent = {ADA}
    watch = await fleet.watch(changed, [])
    assert (watch.liveness_of[ADA].answers, watch.changed[ADA].after) == (None, None)


async def test_errors_are_counted_once() -> None:
    fleet = Fleet()
    await fleet.watch({}, [CLEO], after_s=0)
    assert fleet.asked[CLEO].since == BEGIN - timedelta(hours=1)
    changed = {ADA: BEGIN}
    await fleet.watch(changed, [BOB])
    assert (fleet.asked[ADA].since, fleet.asked[BOB].since) == (BEGIN, BEGIN)
    answer = fleet.now
    await fleet.watch(changed, [BOB])
    assert (fleet.asked[ADA].since, fleet.asked[BOB].since) == (answer, answer)


async def test_turns_are_taken_soon_after_the_change_and_ever_more_rarely() -> None:
    fleet = Fleet()
    await fleet.watch({}, [ADA])
    changed, taken = {ADA: fleet.now}, []
    for minute in range(1, 15):
        await fleet.watch(changed, [BOB])
        if fleet.asked[ADA].turn_s:
            taken.append(minute)
    assert taken == [1, 2, 4, 8, 13]


async def test_controls_take_turns_on_both_sides_of_a_change_however_short_the_soak() -> None:
    fleet = Fleet()
    await fleet.watch({}, [ADA, BOB])
    changed = {ADA: fleet.now}
    watch = await fleet.watch(changed, [BOB], after_s=5)
    assert set(figures_of(Vital.TURN_LATENCY, watch.controls)) == {BOB}


async def test_who_was_just_looked_at_is_left_alone() -> None:
    fleet = Fleet()
    await fleet.watch({ADA: BEGIN}, [BOB])
    watch = await fleet.watch({ADA: BEGIN}, [BOB], after_s=4)
    assert fleet.asked == {}
    assert (watch.liveness_of[ADA].answers, watch.liveness_of[ADA].exercised) == (True, True)
    await fleet.watch({ADA: BEGIN}, [BOB], after_s=8)
    assert set(fleet.asked) == {ADA}


async def test_one_turn_that_fails_is_tried_again_before_it_counts() -> None:
    fleet = Fleet(turnless={ADA})
    first = await fleet.watch({ADA: BEGIN}, [BOB, CLEO])
    assert first.liveness_of[ADA].failed == ""
    second = await fleet.watch({ADA: BEGIN}, [BOB, CLEO])
    assert "no turn" in second.liveness_of[ADA].failed
    fleet.turnless.clear()
    assert (await fleet.watch({ADA: BEGIN}, [BOB, CLEO])).liveness_of[ADA].failed == ""


async def test_a_router_that_is_down_blames_no_release_and_proves_nothing() -> None:
    fleet = Fleet(turnless={ADA, BOB, CLEO})
    for _ in range(2):
        watch = await fleet.watch({ADA: BEGIN}, [BOB, CLEO, DAN])
    assert (watch.liveness_of[ADA].failed, watch.liveness_of[ADA].exercised) == ("", False)


async def test_an_agent_whose_user_pays_for_turns_is_exercised_when_its_gateway_answers() -> None:
    fleet = Fleet(own={ADA})
    watch = await fleet.watch({ADA: BEGIN}, [BOB])
    assert (watch.liveness_of[ADA].exercised, watch.liveness_of[ADA].failed) == (True, "")
    fleet = Fleet(own={ADA}, silent={ADA})
    assert not (await fleet.watch({ADA: BEGIN}, [BOB])).liveness_of[ADA].exercised


async def test_a_single_untouched_agent_shows_that_the_router_is_down() -> None:
    fleet = Fleet(turnless={ADA, BOB})
    for _ in range(2):
        watch = await fleet.watch({ADA: BEGIN}, [BOB])
    assert watch.liveness_of[ADA].failed == ""
    fleet.turnless.discard(BOB)
    for _ in range(2):
        watch = await fleet.watch({ADA: BEGIN}, [BOB])
    assert "no turn" in watch.liveness_of[ADA].failed


async def test_only_so_many_untouched_ones_are_asked_and_the_next_come_first() -> None:
    fleet = Fleet()
    many = [InstanceId(f"i{number}") for number in range(CONTROLS + 10)]
    await fleet.watch({many[0]: BEGIN}, many)
    assert set(fleet.asked) == set(many[: CONTROLS + 1])


class Server(Prometheus):
    """A Prometheus that knows only how much memory Ada's agent takes."""

    async def vitals(
        self, instances: Collection[InstanceId], *, since: datetime, until: datetime
    ) -> dict[InstanceId, Vitals]:
        figures = {Vital.MEMORY: 500.0 if since >= BEGIN else 400.0}
        empty = {each: Vitals(each, since, until, Source.PROMETHEUS) for each in instances}
        return {each: replace(empty[each], figures=figures if each == ADA else {}) for each in instances}


async def test_figures_of_prometheus_count_where_it_has_them() -> None:
    fleet = Fleet()
    await fleet.watch({}, [ADA, BOB], after_s=-60)
    fleet.now = BEGIN + timedelta(seconds=90)
    watch = await CanaryWatch(fleet, fleet.store, lambda: fleet.now, Server("http://prometheus")).watch(
        spans({ADA: BEGIN}), [BOB]
    )
    assert figures_of(Vital.MEMORY, watch.changed) == {ADA: (400.0, 500.0)}
    assert figures_of(Vital.MEMORY, watch.controls) == {BOB: (100.0, 100.0)}
    assert figures_of(Vital.TURN_LATENCY, watch.changed) == {ADA: (1.0, 1.0)}


async def test_the_time_of_the_change_itself_is_neither_before_nor_after() -> None:
    """While a release is activated, its gateway is stopped and starts: it holds little, and logs errors."""
    fleet = Fleet()
    await fleet.watch({}, [ADA, BOB], after_s=0)
    change = ChangeSpan(BEGIN + timedelta(seconds=10), BEGIN + timedelta(seconds=40))
    fleet.now, fleet.memory = BEGIN + timedelta(seconds=30), {ADA: 20}
    await fleet.watch({}, [ADA, BOB], after_s=0)
    fleet.now, fleet.memory = BEGIN + timedelta(seconds=43), {}
    watch = await CanaryWatch(fleet, fleet.store, lambda: fleet.now).watch({ADA: change}, [BOB])
    assert figures_of(Vital.MEMORY, watch.changed) == {ADA: (100.0, 100.0)}


@dataclass
class Asked(Prometheus):
    """A Prometheus that notes the stretches of time that it is asked about."""

    stretches: dict[InstanceId, list[tuple[float, float]]] = field(default_factory=dict)

    async def vitals(
        self, instances: Collection[InstanceId], *, since: datetime, until: datetime
    ) -> dict[InstanceId, Vitals]:
        for each in instances:
            stretch = ((since - BEGIN).total_seconds(), (until - BEGIN).total_seconds())
            self.stretches.setdefault(each, []).append(stretch)
        return {each: Vitals(each, since, until, Source.PROMETHEUS) for each in instances}


async def test_prometheus_is_asked_about_no_moment_of_the_change() -> None:
    fleet, prometheus = Fleet(), Asked()
    change = ChangeSpan(BEGIN + timedelta(seconds=95), BEGIN + timedelta(seconds=130))
    for after_s, stretch_s in ((3, 30), (1000, 980)):
        prometheus.stretches = {}
        fleet.now = change.ended + timedelta(seconds=after_s)
        await CanaryWatch(fleet, fleet.store, lambda: fleet.now, prometheus).watch({ADA: change}, [BOB])
        before = (90.0 - max(600, stretch_s), 90.0)
        assert prometheus.stretches[ADA] == [before, (150.0, 150.0 + stretch_s)], f"{after_s} s after its end"
        assert prometheus.stretches[BOB] == prometheus.stretches[ADA], "a control at the same times"


async def test_nothing_is_said_of_one_that_has_not_answered_yet() -> None:
    fleet = Fleet()
    await fleet.watch({}, [ADA, BOB])
    changed = {ADA: fleet.now + timedelta(seconds=1)}
    assert (await fleet.watch(changed, [BOB])).liveness_of[ADA].answers
    fleet.slow = {ADA}
    watch = await fleet.watch(changed, [BOB])
    assert ADA not in fleet.asked
    assert watch.liveness_of == {}
    fleet.slow = set()
    assert (await fleet.watch(changed, [BOB])).liveness_of[ADA].answers
