"""A monitor over hours of virtual time: dead machines are brought up soon, flapping ones are left in peace."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from hermesops.automation.monitor import runner
from hermesops.automation.monitor.decide import Actions, Policy, Reboot, Replace, Start, Verdict, decide
from hermesops.automation.monitor.facts import FleetFacts
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.overview import GONE
from hermesops.model.operation import Lease, LeaseHeldError
from hermesops.programs.ingest.senders import IDENTITY
from tests.support.worlds.watched_fleet import WatchedFleet, flapping, without_threads

HOUR, DAY = 3_600.0, 86_400.0


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


@pytest.fixture
def log() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def events(log: list[Any], name: str) -> list[Any]:
    return [line for line in log if line["event"] == name]


def test_a_dead_machine_is_asked_and_rebooted_within_150_seconds() -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(3).dead_from = 1_000.0
    fleet.watch(2_000, fleet.monitor())
    [(at, wanted)] = fleet.repaired
    assert isinstance(wanted, Reboot)
    assert wanted.instance_id == fleet.host(3).instance_id
    assert 90 < at - 1_000 <= 150
    assert fleet.host(3).answers(2_000)


def test_a_machine_that_is_switched_off_is_started_and_one_that_is_gone_replaced() -> None:
    fleet = WatchedFleet.of(20)
    fleet.host(1).status = "stopped"
    fleet.host(2).status, fleet.host(2).gone_at = GONE, 200.0
    fleet.watch(600, fleet.monitor())
    assert {wanted.instance_id: type(wanted) for _, wanted in fleet.repaired} == {
        fleet.host(1).instance_id: Start,
        fleet.host(2).instance_id: Replace,
    }
    assert "its newest backup is of 3 h ago" in next(
        wanted.why for _, wanted in fleet.repaired if isinstance(wanted, Replace)
    )


def test_one_that_no_reboot_helps_is_replaced_after_two_tries() -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(0).dead_from, fleet.host(0).is_broken = 100.0, True
    fleet.watch(2 * HOUR, fleet.monitor())
    assert [type(wanted) for _, wanted in fleet.repaired] == [Reboot, Reboot, Replace]
    only_restarts = WatchedFleet.of(10, policy=Policy(Actions.RESTART))
    only_restarts.host(0).dead_from, only_restarts.host(0).is_broken = 100.0, True
    only_restarts.watch(2 * HOUR, only_restarts.monitor())
    assert [type(wanted) for _, wanted in only_restarts.repaired] == [Reboot, Reboot]


def test_what_answers_is_never_touched_however_long_its_heartbeats_are_missing(log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(5).mute = lambda second: second > 500
    fleet.watch(3 * HOUR, fleet.monitor())
    assert fleet.repaired == []
    seconds = [at for at, instance_id in fleet.asked if instance_id == fleet.host(5).instance_id and at > 600]
    assert 30 <= len(seconds) <= 35, "it is asked every five minutes"
    warned = [line for line in events(log, "instance_seems_dead") if line["decision"] == "Alert"]
    assert "monitoring is broken" in warned[0]["why"]


A_TURN = pytest.mark.turns(12, each=True)


@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, HOUR), pytest.param(1, DAY, marks=A_TURN), pytest.param(2, DAY, marks=A_TURN)]
)
def test_flapping_networks_make_no_storm_of_restarts(seed: int, seconds: float) -> None:
    fleet = WatchedFleet.of(30, per_cell=10)
    for number, host in enumerate(fleet.hosts.values()):
        host.cut = flapping(1_000 * seed + number, up_s=(20, 1_500), down_s=(20, 400), until_s=seconds)
    fleet.watch(seconds, fleet.monitor())
    by_instance: dict[str, list[float]] = {}
    for at, wanted in fleet.repaired:
        by_instance.setdefault(wanted.instance_id, []).append(at)
    assert fleet.repaired, "nothing was tried at all"
    assert all(len(times) <= 9 for times in by_instance.values()), by_instance
    moments = [at for at, _ in fleet.repaired]
    for begin in moments:
        assert sum(begin <= at < begin + HOUR for at in moments) <= 20
        for times in by_instance.values():
            assert sum(begin <= at < begin + HOUR for at in times) <= 2


def test_outages_of_everything_at_once_make_it_stop_and_tell(log: list[Any]) -> None:
    fleet = WatchedFleet.of(5)
    outage = flapping(7, up_s=(600, 4_000), down_s=(60, 900), until_s=8 * HOUR)
    for host in fleet.hosts.values():
        host.cut = outage
    fleet.watch(8 * HOUR, fleet.monitor())
    assert fleet.repaired == []
    assert len(events(log, "monitor_stopped_acting")) == len(events(log, "monitor_acts_again")) > 5
    assert any('hermesops_monitor_stopped_acting{reason="fleet_silent"} 1\n' in text for text in fleet.pushed)
    assert 'hermesops_monitor_stopped_acting{reason="fleet_silent"} 1\n' not in fleet.pushed[-1]


@pytest.mark.parametrize("source", ["prometheus", "justavps", "registry"])
def test_while_a_source_is_away_nothing_is_rebooted_and_it_is_told_once(source: str, log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(0).dead_from = 1_000.0
    fleet.away = {source: lambda second: 900 < second < 5_000}
    fleet.watch(6_000, fleet.monitor())
    [(at, wanted)] = fleet.repaired
    assert isinstance(wanted, Reboot)
    assert 5_000 < at < 5_250, "it goes on by itself"
    for event in ("source_does_not_answer", "source_answers_again"):
        assert [line["source"] for line in events(log, event)] == [source]
    away = f'hermesops_monitor_source_up{{service="{source}"}} 0\n'
    assert any(away in text for text in fleet.pushed)
    assert away not in fleet.pushed[-1]


@pytest.mark.parametrize("way", ["toolbox", "proxy"])
def test_a_way_by_which_nobody_answers_is_told_though_every_heartbeat_is_well(way: str, log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.away = {way: lambda second: 900 < second < 5_000}
    fleet.watch(6_000, fleet.monitor())
    assert fleet.repaired == []
    for event in ("source_does_not_answer", "source_answers_again"):
        assert [line["source"] for line in events(log, event)] == [way]
    away = f'hermesops_monitor_source_up{{service="{way}"}} 0\n'
    numbers = [number for number, text in enumerate(fleet.pushed) if away in text]
    assert 61 <= numbers[0] <= 68, "within a minute and a half"
    assert len(numbers) == numbers[-1] - numbers[0] + 1
    assert away not in fleet.pushed[-1]


def test_a_way_that_fails_once_is_not_told_and_is_tried_again_soon(log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    failed: list[float] = []

    def once(second: float) -> bool:
        if second > 900 and len(failed) < 3:
            failed.append(second)
            return True
        return False

    fleet.away = {"proxy": once}
    fleet.watch(2_000, fleet.monitor())
    assert events(log, "source_does_not_answer") == []
    assert len(failed) == 3
    assert any(10 < at - failed[0] < 20 for at, _ in fleet.asked)


def test_no_label_is_one_that_the_ingest_replaces() -> None:
    fleet = WatchedFleet.of(3)
    fleet.watch(600, fleet.monitor())
    own = "\n".join(line for line in fleet.pushed[-1].splitlines() if line.startswith("hermesops_monitor_"))
    assert 'source_up{service="toolbox"} 1' in own
    assert [label for label in IDENTITY if f'{label.decode()}="' in own] == []


def test_what_no_answer_tells_of_is_not_told(log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.away = {"justavps": lambda second: 900 < second < 5_000}
    fleet.watch(3_000, fleet.monitor())
    assert [line["source"] for line in events(log, "source_does_not_answer")] == ["justavps"]
    assert 'service="justavps"} 0\n' in fleet.pushed[-1]
    assert 'service="toolbox"' not in fleet.pushed[-1], "it is a part of what is away"


def test_gateways_that_are_down_are_not_taken_for_a_proxy_that_is(log: list[Any]) -> None:
    fleet = WatchedFleet.of(3)
    fleet.away = {"proxy": lambda second: second > 900}
    fleet.gateway = GatewayHealth.SILENT
    fleet.watch(3_000, fleet.monitor())
    assert events(log, "source_does_not_answer") == []


def test_a_way_that_hangs_delays_no_pass() -> None:
    fleet = WatchedFleet.of(10)
    fleet.asking_takes_s = 25.0
    monitor = fleet.monitor()
    fleet.watch(3_000, monitor)
    assert monitor.tally.passes >= 3_000 / 15


def test_those_that_are_asked_are_drawn_by_lot() -> None:
    fleet = WatchedFleet.of(30)
    fleet.watch(6_000, fleet.monitor())
    assert len({instance_id for _, instance_id in fleet.asked}) == 30


def test_a_registry_that_is_away_ends_the_lead_and_comes_back(log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(0).dead_from = 1_000.0
    fleet.registry.is_away = lambda second: 900 < second < 5_000
    fleet.away = {"registry": fleet.registry.is_away}
    fleet.watch(6_000, fleet.monitor())
    [(at, wanted)] = fleet.repaired
    assert isinstance(wanted, Reboot)
    assert 5_000 < at < 5_250
    assert len(events(log, "source_does_not_answer")) == 1
    assert len(events(log, "monitor_leads")) == 2
    cut_off = [text for text in fleet.pushed if 'source_up{service="registry"} 0' in text]
    assert len(cut_off) > 200, "a monitor without its registry is taken for dead"
    assert all('hermesops_instance_expected{instance_id="i0001",cell="cell0"} 1' in text for text in cut_off)
    assert "hermesops_monitor_leader 0" in cut_off[0].splitlines()


def test_of_two_monitors_one_acts_and_the_other_follows(log: list[Any]) -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(0).dead_from = 1_000.0
    first, second = fleet.monitor(), fleet.monitor()
    fleet.watch(2_000, first, second)
    assert len(fleet.repaired) == 1
    assert (first.tally.was_leader, second.tally.was_leader) == (True, False)
    assert len(events(log, "monitor_stands_by")) == 1
    fleet.host(1).dead_from = 2_500.0
    third = fleet.monitor()
    fleet.watch(1_500, third)
    assert third.tally.was_leader
    assert len(fleet.repaired) == 2, "what was done before is not forgotten"


@pytest.mark.parametrize("cause", ["stands by", "cut off"])
def test_after_a_pause_a_monitor_waits_for_heartbeats_as_one_that_begins(
    cause: str, monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    def is_paused(second: float) -> bool:
        return 600 < second < 4_200

    fleet = WatchedFleet.of(1)
    fleet.host(0).cut = lambda second: 4_000 < second < 4_260
    if cause == "cut off":
        fleet.registry.is_away = is_paused
        fleet.away = {"registry": is_paused}
    else:
        take, renew = fleet.registry.leases_take, fleet.registry.leases_renew

        def held_by_another(subject: str, holder: str, *, over: str = "") -> Lease:
            if is_paused(fleet.now()):
                raise LeaseHeldError("held", holder="another")
            return take(subject, holder, over=over)

        def lost_to_another(held: list[Lease]) -> frozenset[str]:
            return frozenset(lease.subject for lease in held) if is_paused(fleet.now()) else renew(held)

        monkeypatch.setattr(fleet.registry, "leases_take", held_by_another)
        monkeypatch.setattr(fleet.registry, "leases_renew", lost_to_another)
    fleet.watch(6_000, fleet.monitor())
    assert len(events(log, "monitor_leads")) == 2, "there was a pause"
    assert fleet.repaired == []


@pytest.mark.parametrize("takes_s", [100.0, 240.0])
def test_passes_that_take_long_each_time_are_no_pause(takes_s: float) -> None:
    fleet = WatchedFleet.of(10)
    fleet.reading_takes_s = takes_s
    fleet.host(3).dead_from = 3_000.0
    fleet.watch(6_000, fleet.monitor())
    [(at, wanted)] = fleet.repaired
    assert wanted.instance_id == fleet.host(3).instance_id
    assert at - 3_000 <= 90 + 3 * takes_s


@pytest.mark.parametrize("happened", ["minutes went by", "another monitor led"])
def test_a_monitor_that_stood_still_after_it_decided_observes_again_before_it_acts(
    happened: str, monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    fleet = WatchedFleet.of(10)
    fleet.host(3).dead_from = 1_000.0

    def stood_still(facts: FleetFacts, policy: Policy) -> Verdict:
        verdict = decide(facts, policy)
        if verdict.repairs and not fleet.moved_s:
            fleet.moved_s = 300.0 if happened == "minutes went by" else 1.0
            fleet.host(3).dead_from = float("inf")  # whoever looks again sees that it lives
            if happened == "another monitor led":
                fleet.registry.holder = "another"
        return verdict

    monkeypatch.setattr(runner, "decide", stood_still)
    fleet.watch(3_000, fleet.monitor())
    assert fleet.repaired == []
    assert len(events(log, "repair_not_begun")) == 1


def test_what_has_ended_is_told_as_nought() -> None:
    fleet = WatchedFleet.of(3)
    fleet.host(0).dead_from = 1_000.0
    fleet.watch(2_000, fleet.monitor())
    busy = f'hermesops_instance_busy{{instance_id="{fleet.host(0).instance_id}"}}'
    values = Counter(line for text in fleet.pushed for line in text.splitlines() if line.startswith(busy))
    assert values[f"{busy} 1"] >= 3
    assert 20 <= values[f"{busy} 0"] <= 30
    assert "hermesops_monitor_leader 1" in fleet.pushed[-1].splitlines()
    assert 'hermesops_monitor_actions_total{action="reboot",outcome="done"} 1' in fleet.pushed[-1]
    assert 'hermesops_cell_expected{cell="cell0"} 3' in fleet.pushed[-1]
