"""Two engines, one stack: what one began the other continues, and both do the same.

The CLI against the embedded engine where there is a CLI; the walks themselves are tried with the embedded one alone.
"""

from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest

from hermesops.base import child_environment
from hermesops.errors import RefusedError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import read_passphrase
from hermesops.settings.environment import Environment
from tests.support.engine.conformance import SCENARIOS, Reproduced
from tests.support.engine.fake_stack import STACK, FakeStack, machines
from tests.support.engine.recordings import Scenario
from tests.support.engine.scenario_walk import UNWALKED, Stop, is_walked, require_same, resources_of, walk

PAIRS = list(permutations(["cli", "embedded"]))
WALKED = [name for name, place in SCENARIOS.items() if isinstance(place, Reproduced) and name not in UNWALKED]
SAMPLE = ["targets"]
REFUSED = "RefusedError or UnsupportedByEmbeddedError"


@pytest.fixture
def stack(tmp_path: Path) -> FakeStack:
    return FakeStack(tmp_path / "one").install()


def engine(kind: str, stack: FakeStack) -> Engine:
    passphrase = stack.folder / "passphrase"
    passphrase.write_text("a passphrase of this test")
    passphrase.chmod(0o600)
    return make_engine(
        kind,
        EngineConfig(
            backend=stack.backend,
            passphrase=partial(read_passphrase, passphrase),
            environment=Environment.load().for_child(child_environment.PULUMI),
            plugin_folders=[stack.plugins],
            parallel=1,
        ),
        production=False,
    )


async def walked(name: str, stack: FakeStack, *kinds: str) -> list[Stop]:
    """Go through a scenario with engines in turns; after each whole ``up`` the next one finds nothing to do."""
    engines = [engine(kind, stack) for kind in kinds]
    scenario, stops = Scenario(name), []
    async for stop in walk(scenario, stack, lambda place: engines[place % len(engines)]):
        stops.append(stop)
        if stop.is_up:
            following = engines[len(stops) % len(engines)]
            config = scenario.config_at(stop.number)
            preview = await following.preview(STACK, scenario.program(stop.number), config=config)
            assert preview.changes == (), f"step {stop.number}: {preview.changes}"
    return stops


@pytest.mark.pulumi_cli
@pytest.mark.parametrize("name", WALKED)
async def test_both_engines_do_the_same(name: str, stack: FakeStack, tmp_path: Path) -> None:
    other = FakeStack(tmp_path / "other").install()
    require_same(await walked(name, stack, "cli"), await walked(name, other, "embedded"))


@pytest.mark.pulumi_cli
@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_scenario_is_gone_through_in_turns(
    name: str, first: str, second: str, stack: FakeStack, tmp_path: Path
) -> None:
    other = FakeStack(tmp_path / "other").install()
    require_same(await walked(name, stack, first, second), await walked(name, other, "embedded"))


@pytest.mark.parametrize("name", SAMPLE)
async def test_engines_without_a_memory_go_through_it_in_turns(name: str, stack: FakeStack) -> None:
    """What one left out of the state the other would do again."""
    stops = await walked(name, stack, "embedded", "embedded")
    assert len([stop for stop in stops if stop.is_up]) > 1
    assert any(stop.changes for stop in stops)


async def test_a_missing_plugin_is_refused_by_either_and_the_state_stays(stack: FakeStack) -> None:
    """Recorded: provider_errors, step 7, after which the checkpoint is that of step 5."""
    stops = {stop.number: stop for stop in await walked("provider_errors", stack, "embedded")}
    assert stops[7].error == REFUSED
    assert (stops[7].resources, stops[7].machines) == (stops[5].resources, stops[5].machines)


def test_the_first_difference_of_two_walks_is_told_whole() -> None:
    long = "x" * 5000
    stop = Stop(1, "", (), (), (), is_up=True)
    with pytest.raises(AssertionError) as caught:
        require_same([stop, replace(stop, number=3, error="A")], [stop, replace(stop, number=3, resources=(long,))])
    assert str(caught.value).splitlines()[0] == "the walks differ at step 3"
    assert {"  A", f"  ('{long}',)"} <= set(str(caught.value).splitlines())
    with pytest.raises(AssertionError, match="ends before step 3"):
        require_same([stop], [stop, replace(stop, number=3)])


async def test_the_order_of_independent_creates_shows_nowhere(stack: FakeStack, tmp_path: Path) -> None:
    """It is chance, so a walk would differ by it."""
    other = FakeStack(tmp_path / "other").install()
    for side, order in ((stack, ("a", "b")), (other, ("b", "a"))):
        for names in (order[:1], order):
            await engine("embedded", side).up(STACK, machines(names))
    first, second = (set(resources_of(side)) for side in (stack, other))
    assert {resource for resource in first ^ second if "Machine" in resource} == set()


@pytest.mark.parametrize(
    ("name", "number", "walked"),
    [
        ("provider_config", 15, False),  # the embedded engine refuses a version of the plugin
        ("program_error", 5, False),  # the CLI cannot hand on what is raised in an apply
        ("program_error", 3, True),
        ("import_option", 8, True),
        ("crash_cli", 5, True),
    ],
)
def test_only_steps_that_must_differ_are_left_out_of_walks(name: str, number: int, *, walked: bool) -> None:
    assert is_walked(Scenario(name), number) is walked


@pytest.mark.pulumi_cli
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("properties", [{}, {"password": "yes"}], ids=["plain", "secret"])
async def test_the_other_engine_finds_nothing_to_do(
    stack: FakeStack, first: str, second: str, properties: dict[str, str]
) -> None:
    side, other = engine(first, stack), engine(second, stack)
    wanted = machines(["a", "b"], **properties)
    done = await side.up(STACK, wanted)
    assert (await other.preview(STACK, wanted)).changes == ()
    assert (await other.up(STACK, wanted)).changes == ()
    assert (await side.preview(STACK, wanted)).changes == ()
    assert (await other.refresh(STACK)).changes == ()
    assert await other.outputs(STACK) == done.outputs

    await other.up(STACK, machines(["a"], size="pro", **properties), may_destroy=lambda urn: urn.endswith("::b"))
    assert stack.machines() == ["a"]
    with pytest.raises(RefusedError, match="a "):
        await side.destroy(STACK, may_destroy=lambda _urn: False)
    await side.destroy(STACK, may_destroy=lambda _urn: True)
    assert stack.machines() == []


@pytest.mark.pulumi_cli
async def test_the_cli_goes_on_with_what_the_embedded_engine_sealed_and_with_no_other_passphrase(
    stack: FakeStack,
) -> None:
    wanted = machines(["a"])
    await engine("embedded", stack).up(STACK, wanted)
    sealed = stack.state()["secrets_providers"]
    cli = engine("cli", stack)
    (stack.folder / "passphrase").write_text("another passphrase")
    with pytest.raises(RefusedError, match="incorrect passphrase"):
        await cli.up(STACK, wanted)
    assert (await engine("cli", stack).up(STACK, wanted)).changes == ()
    assert stack.state()["secrets_providers"] == sealed
