"""Goes through a recorded scenario's operations with engines and the fake plugin, from nothing.

Unlike a replay nothing is compared with the recording: two walks are compared with each other. Faults and kills are
left out, as are commands that an engine does not have.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from hermesops.infra.engine.interface import Engine
from hermesops.model.stack import Change
from tests.support.engine.conformance import SCENARIOS, VERSIONED, Reproduced, is_replayed
from tests.support.engine.fake_stack import STACK, FakeStack
from tests.support.engine.recordings import Scenario, canonical

DRY = "--preview-only"
LESS = "the fake plugin of our tests answers less than the recorder's, so the program does not come to rest"
UNWALKED = {
    "dependencies": LESS,
    "preview_unknowns": LESS,
    "secrets": LESS,
    **dict.fromkeys(("no_accept_secrets", "no_handshake", "no_preview_support"), "about a plugin of another kind"),
}
"""Reproduced scenarios that are replayed only."""

IN_APPLY = "raised inside an apply, after the program has returned: the CLI hands on its text and not the exception"
UNWALKED_STEPS = {("program_error", 5): IN_APPLY}
"""Steps of walked scenarios that the engines end with different errors, and why."""

NAMED_OTHERWISE = {("provider_errors", 7): {"RefusedError", "UnsupportedByEmbeddedError"}}
"""Steps that both engines refuse without a change, as recorded, by different classes: ours says what to do about a
missing plugin (``conformance.PLUGIN``)."""

COMPARED = ("urn", "id", "type", "inputs", "outputs", "parent", "protect", "delete", "importID", "initErrors")


@dataclass(frozen=True)
class Stop:
    """How things are after one operation.

    Attributes:
        error: The class of its error; empty when it ended well.
        changes: Kind and name of what changed outside the state.
        is_up: Whether it was a whole ``up``, after which nothing is left to do.
    """

    number: int
    error: str
    changes: tuple[tuple[str, str], ...]
    machines: tuple[str, ...]
    resources: tuple[str, ...]
    is_up: bool


async def walk(scenario: Scenario, stack: FakeStack, engine_at: Callable[[int], Engine]) -> AsyncIterator[Stop]:
    """Do every operation, each with the engine for its place in the walk; stops after each."""
    done = 0
    for number, step in scenario.steps.items():
        edit = scenario.edit(number)
        if edit is not None:
            edit_world(stack, edit)
        if not is_walked(scenario, number):
            continue
        error = ""
        changes: tuple[Change, ...] = ()
        try:
            changes = await _operate(engine_at(done), scenario, number)
        except Exception as raised:  # noqa: BLE001  also what a recorded program raises by itself
            error = _named(scenario, number, type(raised).__name__)
        done += 1
        yield Stop(
            number,
            error,
            tuple(sorted((str(change.kind), change.name) for change in changes if _is_outside(change))),
            tuple(stack.machines()),
            resources_of(stack),
            is_up=step["do"] == "up" and not error and not scenario.targets(number),
        )


def _named(scenario: Scenario, number: int, error: str) -> str:
    names = NAMED_OTHERWISE.get((scenario.name, number), set())
    return " or ".join(sorted(names)) if error in names else error


def require_same(walked: Sequence[Stop], other: Sequence[Stop]) -> None:
    """Return where two walks are the same.

    Raises:
        AssertionError: They are not; it has the first difference whole, each value in a line.
    """
    for step, two in zip_longest(walked, other):
        if step == two:
            continue
        if step is None or two is None:
            raise AssertionError(f"one walk ends before step {(step or two).number}")
        values = [
            (field.name, getattr(step, field.name), getattr(two, field.name))
            for field in fields(Stop)
            if getattr(step, field.name) != getattr(two, field.name)
        ]
        lines = [line for name, first, second in values for line in (name, f"  {first}", f"  {second}")]
        raise AssertionError("\n".join([f"the walks differ at step {step.number}", *lines]))


def is_walked(scenario: Scenario, number: int) -> bool:
    """Whether a step changes something, by a command of ours, without a fault."""
    step = scenario.steps[number]
    return (
        is_replayed(scenario, number)
        and (scenario.name, number) not in UNWALKED_STEPS
        and not _is_refused(scenario, number)
        and step["do"] != "preview"
        and DRY not in step["args"]
        and not step.get("faults")
        and not step.get("env")
    )


def _is_refused(scenario: Scenario, number: int) -> bool:
    """Whether the embedded engine refuses on purpose what the CLI does."""
    place = SCENARIOS[scenario.name]
    return isinstance(place, Reproduced) and place.ours.get(number) == VERSIONED


async def _operate(engine: Engine, scenario: Scenario, number: int) -> tuple[Change, ...]:
    step, targets = scenario.steps[number], scenario.targets(number)
    match step["do"]:
        case "up":
            config = scenario.config_at(number)
            return (await engine.up(STACK, scenario.program(number), targets=targets, config=config)).changes
        case "refresh":
            return (await engine.refresh(STACK, targets=targets)).changes
        case "destroy":
            return (await engine.destroy(STACK, targets=targets)).changes
        case _:
            return (await engine.import_resources(STACK, [scenario.imported(number)])).changes


def _is_outside(change: Change) -> bool:
    return not change.type.startswith("pulumi:") and ":index:" in change.type


def edit_world(stack: FakeStack, edit: Callable[[dict[str, Any]], None]) -> None:
    objects = stack.world()
    world: dict[str, Any] = {"objects": objects, "counters": {}, "faults": []}
    with contextlib.suppress(KeyError):  # an edit of what only exists where a fault came before
        edit(world)
    for thing in objects.values():
        thing.setdefault("name", thing["inputs"]["name"])
    stack.change_world(objects)


def resources_of(stack: FakeStack) -> tuple[str, ...]:
    """The state's resources without what differs from run to run: times, ids made anew, ciphertexts."""
    if not stack.state_file.exists():
        return ()
    resources = stack.state().get("resources", [])
    return tuple(sorted(str(_plain(canonical({k: r[k] for k in COMPARED if k in r}))) for r in resources))


def _plain(value: Any) -> Any:  # noqa: ANN401  any JSON
    match value:
        case {"ciphertext": _}:
            return "secret"
        case dict():
            return {key: _plain(value[key]) for key in sorted(value)}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value
