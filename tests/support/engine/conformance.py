"""Which recorded scenario of the CLI the embedded engine reproduces, which it refuses, and why. All 44 of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.engine.recordings import Scenario


@dataclass(frozen=True)
class Reproduced:
    """Every step with flags that we have is what the CLI did.

    Attributes:
        races: Steps where a failure ends the run: whether an independent resource had its turn before is chance.
        ours: Steps that deliberately end otherwise, with the reason; they have tests of their own.
    """

    races: frozenset[int] = frozenset()
    ours: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """The program uses what only the CLI does: the first such step ends in the error that says so."""

    step: int
    feature: str


@dataclass(frozen=True)
class Elsewhere:
    """Not an engine's business, or not ours."""

    why: str


def races(*steps: int) -> Reproduced:
    return Reproduced(frozenset(steps))


VERSIONED = "a version of the provider plugin is refused"
PLUGIN = "a missing plugin is an error of our own, with what to do"
KILLED = "killed: test_embedded_engine.py kills ours at each write"

SCENARIOS: dict[str, Reproduced | Refused | Elsewhere] = {
    "aliases": Refused(3, "aliases"),
    "automation_api": Elsewhere("about the Automation API: test_cli.py"),
    "check_failure": Reproduced(),
    "component": Reproduced(),
    "crash_cli": Reproduced(
        ours={
            2: KILLED,
            5: "ours removes the lock of a process that is provably gone: test_embedded_engine.py",
            16: KILLED,
            22: KILLED,
        }
    ),
    "crash_cli_others": Reproduced(),
    "crash_provider": Reproduced(),
    "create_error": races(4),
    "create_many": Reproduced(),
    "create_one": Reproduced(),
    "create_partial": Reproduced(),
    "delete_error": races(5, 8, 9),
    "deleted_with": Refused(1, "deleted_with"),
    "dependencies": Reproduced(),
    "duplicate_urn": Reproduced(),
    "export_import": Reproduced(),
    "files": Reproduced(),
    "get_resource": Refused(2, "reading a resource that it does not manage (get)"),
    "ignore_changes": Refused(1, "ignore_changes"),
    "import_cli": Reproduced(),
    "import_option": Reproduced(
        frozenset({9, 10}), {8: "recorded before an independent resource had its turn: test_embedded_engine.py"}
    ),
    "interrupt": Reproduced(ours=dict.fromkeys((1, 2, 5), "interrupted: has a test of its own here")),
    "lock": Reproduced(ours={3: "the lock file itself is compared: test_embedded_engine.py"}),
    "no_accept_secrets": Reproduced(),
    "no_handshake": Reproduced(),
    "no_preview_support": Reproduced(),
    "outputs_only": Reproduced(),
    "passphrase": Elsewhere("the CLI's settings files are not ours: unit/infra/engine/embedded/state/test_secrets.py"),
    "preview_unknowns": Reproduced(),
    "program_error": Reproduced(),
    "protect": races(5),
    "provider_config": Reproduced(ours={15: VERSIONED}),
    "provider_errors": Reproduced(frozenset({2}), {6: PLUGIN, 7: PLUGIN, 8: VERSIONED}),
    "refresh_drift": Reproduced(),
    "remove_resource": Reproduced(),
    "replace_create_first": Reproduced(),
    "replace_delete_first": Reproduced(),
    "replace_options": Refused(1, "replace_on_changes"),
    "retain_on_delete": Refused(1, "retain_on_delete"),
    "secrets": Reproduced(),
    "stack_commands": Reproduced(),
    "targets": Reproduced(
        ours={
            4: "a target that needs what is none is refused before anybody is asked: test_embedded_engine.py",
            10: "who would stay behind is read from the state; nobody is asked: test_embedded_engine.py",
        }
    ),
    "update_error": races(2, 5, 9),
    "update_in_place": Reproduced(),
}

OPERATIONS = frozenset({"up", "preview", "destroy", "refresh"})
OUR_FLAGS = frozenset({"--target", "--expect-no-changes", "--message"})
IMPORT_FLAGS = frozenset({"--generate-code=false", "--protect=false"})
WILDCARD = "*"


def is_replayed(scenario: Scenario, number: int) -> bool:
    """Whether a step is an operation of ours, with nothing in its command that only the CLI has."""
    step = scenario.steps[number]
    if step["do"] == "cli" and step["args"][2] == "import":
        return bool(step["rpc"]) and scenario.flags(number) <= IMPORT_FLAGS
    return (
        step["do"] in OPERATIONS
        and step["exit"] != -9
        and scenario.flags(number) <= OUR_FLAGS
        and not any(WILDCARD in target for target in scenario.targets(number))
    )


def replayed_steps(scenario: Scenario) -> list[int]:
    """The steps of a scenario that the embedded engine is held to."""
    place = SCENARIOS[scenario.name]
    assert isinstance(place, Reproduced)
    return [number for number in scenario.steps if number not in place.ours and is_replayed(scenario, number)]


def raced(scenario: Scenario, number: int) -> bool:
    """Whether chance decides about independent resources in a step."""
    place = SCENARIOS[scenario.name]
    return isinstance(place, Reproduced) and number in place.races


def steps_not_replayed() -> Iterator[tuple[str, int, Any]]:
    """Operations of reproduced scenarios that are left out for their flags, to be read by people."""
    for name, place in SCENARIOS.items():
        if isinstance(place, Reproduced):
            scenario = Scenario(name)
            for number, step in scenario.steps.items():
                if step["do"] in OPERATIONS and number not in place.ours and not is_replayed(scenario, number):
                    yield name, number, sorted(scenario.flags(number))
