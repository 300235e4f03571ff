"""How often gates are wrong, and what a bad release costs, counted over thousands of seeded rollouts."""

from collections.abc import Iterator
from statistics import mean

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.agents.rollout.gates.power import odds
from hermesops.agents.rollout.plan.batches import shape
from hermesops.model.rollout.spec import FailureGate, HealthGate, Spec
from tests.support.crash.rollout_deaths import SCENES, die_and_come_back_late, die_and_go_on, points
from tests.support.rollouts.gate_statistics import USERS, Share, run_gate, run_health, run_whole

pytestmark = pytest.mark.timeout(7200)

GATE = FailureGate()


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table("what", "count", "found", "computed", title=f"rollouts to {USERS} users")
    yield table
    Console(width=150).print(table)


def test_a_release_bad_for_everybody_hurts_three(table: Table) -> None:
    ended = [run_whole(1.0, seed) for seed in range(200)]
    worst = max(each.failed for each in ended)
    table.add_row("bad for all: most hurt, touched", str(len(ended)), f"{worst}, {max(e.touched for e in ended)}", "3")
    assert all(each.halted for each in ended)
    assert worst <= 3
    assert all(each.on_new == 0 for each in ended)


def test_a_release_bad_for_a_third_is_halted_before_a_tenth_is_touched(table: Table) -> None:
    ended = [run_whole(0.3, seed) for seed in range(1000)]
    halted, touched = Share(sum(each.halted for each in ended), len(ended)), mean(each.touched for each in ended)
    expected = odds(shape(USERS, Spec()), 0.3, GATE)
    table.add_row("bad for 30 %: halted", "1000", str(halted), f"{expected.halted:.4%}")
    table.add_row("bad for 30 %: touched on average", "1000", f"{touched:.2f}", f"{expected.touched:.2f}")
    table.add_row(
        "bad for 30 %: hurt on average", "1000", f"{mean(e.failed for e in ended):.2f}", f"{expected.failed:.2f}"
    )
    assert halted.rate >= 0.99
    assert touched <= 10


def test_what_fails_anyway_halts_few_good_ones(table: Table) -> None:
    ended = [run_whole(0.02, seed) for seed in range(1000)]
    false = Share(sum(each.halted for each in ended), len(ended))
    table.add_row("2 % background, whole runner: false halts", "1000", str(false), _computed(0.02))
    assert false.rate <= 0.05


def test_the_stated_error_rates_hold(table: Table) -> None:
    ended = [run_gate(0.02, seed, GATE) for seed in range(10_000)]
    false = Share(sum(each.halted for each in ended), len(ended))
    table.add_row("2 % background, gate: false halts", "10000", str(false), _computed(0.02))
    stated = odds(shape(USERS, Spec()), 0.02, GATE).halted
    low, high = false.interval
    assert low - 0.002 <= stated <= high + 0.002
    assert false.rate <= 0.05
    only_test = FailureGate(early_failures=USERS + 1)
    ended = [run_gate(0.02, seed, only_test) for seed in range(10_000)]
    false = Share(sum(each.halted for each in ended), len(ended))
    table.add_row(
        "… the test alone, in all and in each of 3 stages", "10000", str(false), "at most 4 %: four times alpha"
    )
    assert false.rate <= 4 * only_test.alpha


def test_health_takes_little_noise_for_harm_and_finds_slow_releases(table: Table) -> None:
    gate = HealthGate()
    for weather in (0.0, 0.7):
        false = Share(sum(run_health(seed, weather=weather) > 0 for seed in range(2_000)), 2_000)
        table.add_row(f"health, null, weather {weather}: false halts", "2000", str(false), f"≤ {gate.alpha:.0%}")
        assert false.rate <= gate.alpha
    for harm in (1.5, 2.0, 3.0):
        runs = [run_health(seed, harm=harm, weather=0.7) for seed in range(500)]
        table.add_row(
            f"health, turns {harm} times slower: found, in stage 1",
            "500",
            f"{Share(sum(map(bool, runs)), 500)}, {Share(sum(stage == 1 for stage in runs), 500)}",
            "",
        )
        assert sum(map(bool, runs)) >= (495 if harm >= 2.0 else 250)


@pytest.mark.parametrize("scene", SCENES)
def test_a_runner_may_die_at_every_write(scene: str, table: Table) -> None:
    count = points(scene)
    for at in range(1, count + 1):
        die_and_go_on(scene, at)
        die_and_come_back_late(scene, at)
    table.add_row(f"runner killed at every write, {scene}", str(count), "all went on, nobody twice", "")


def _computed(rate: float) -> str:
    return f"{odds(shape(USERS, Spec()), rate, GATE).halted:.2%}"
