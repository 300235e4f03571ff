"""The embedded engine against recordings of the pulumi CLI: same steps, same provider calls, same state."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from hermesops.engine.embedded import run as run_module
from hermesops.engine.embedded.engine import EmbeddedEngine
from hermesops.engine.embedded.events import Diagnostic, EventLog, StepEvent
from hermesops.engine.embedded.kinds import Message
from hermesops.engine.embedded.monitor import Monitor
from hermesops.engine.embedded.outcome import error_of
from hermesops.engine.embedded.run import Run
from hermesops.engine.embedded.secrets import PassphraseVault
from hermesops.engine.embedded.state import deployment_from_doc
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError
from tests.support.recordings import (
    FOLDER,
    PASSPHRASE,
    STACK,
    Replay,
    Scenario,
    canonical,
    pending_of,
    resources_of,
    state_of,
)

REPRODUCED = (
    "create_one",
    "create_many",
    "update_in_place",
    "replace_create_first",
    "replace_delete_first",
    "remove_resource",
    "component",
    "dependencies",
    "secrets",
    "no_accept_secrets",
    "no_handshake",
    "no_preview_support",
    "outputs_only",
    "provider_config",
    "provider_errors",
    "protect",
    "check_failure",
    "create_error",
    "create_partial",
    "crash_provider",
    "crash_cli_others",
    "update_error",
    "delete_error",
    "preview_unknowns",
    "duplicate_urn",
    "program_error",
)
REFUSED = {
    "aliases": (3, "aliases"),
    "deleted_with": (1, "deleted_with"),
    "get_resource": (2, "reading a resource that it does not manage (get)"),
    "ignore_changes": (1, "ignore_changes"),
    "import_option": (2, "the import option"),
    "replace_options": (1, "replace_on_changes"),
    "retain_on_delete": (1, "retain_on_delete"),
}
"""Scenarios whose programs use what only the CLI does: the first such step ends in the error that says so."""

NOT_REPLAYED = {
    "automation_api": "about the Automation API, not about an engine",
    "crash_cli": "ours repeats an interrupted create, which the CLI does not: test_embedded_engine.py",
    "export_import": "no import yet; export is compared in test_embedded_engine.py",
    "files": "the layout is compared in test_embedded_engine.py",
    "import_cli": "no import yet",
    "interrupt": "by signals: test_embedded_engine.py",
    "lock": "ours tells a dead lock from a living one: test_embedded_engine.py",
    "passphrase": "the CLI's settings files are not ours: tests/unit/engine/test_secrets.py",
    "refresh_drift": "no refresh yet",
    "stack_commands": "commands of the CLI",
    "targets": "no targets yet",
}
"""Scenarios of the recordings that are not replayed here, and why."""

RACES = {
    "create_error": {4},
    "delete_error": {5, 8, 9},
    "protect": {5},
    "provider_errors": {2},
    "update_error": {2, 5, 9},
}
"""Where a failure ends a run, whether an independent resource had its turn before is chance and is not compared."""

OURS = {
    ("provider_config", 15): "a version of the provider plugin is refused",
    ("provider_errors", 6): "a missing plugin is an error of our own, with what to do",
    ("provider_errors", 7): "a missing plugin is an error of our own, with what to do",
    ("provider_errors", 8): "a version of the provider plugin is refused",
}
"""Steps of reproduced scenarios that deliberately end otherwise."""

KINDS = {"resourcePreEvent": "pre", "resOutputsEvent": "outputs", "resOpFailedEvent": "failed"}
KEYS: dict[str, bytes] = {}


def _steps() -> Iterator[Any]:
    for name in REPRODUCED:
        scenario = Scenario(name)
        for number, step in scenario.steps.items():
            if step["do"] in {"up", "preview", "destroy"} and step["exit"] != -9 and (name, number) not in OURS:
                if scenario.flags(number):
                    continue
                yield pytest.param(scenario, number, id=f"{name}-{number}")


@dataclass
class Replayed:
    run: Run
    replay: Replay
    latest: dict[str, Any]
    answers: dict[str, Any]


async def replayed(scenario: Scenario, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Replayed:
    step = scenario.steps[number]
    answers: dict[str, Any] = {}

    class Heard(Monitor):
        def RegisterResource(self, request: Message) -> Message:  # noqa: N802
            response = super().RegisterResource(request)
            answers[f"{request.type} {request.name}"] = MessageToDict(response, preserving_proto_field_name=True)
            return response

    monkeypatch.setattr(run_module, "Monitor", Heard)
    with state_of(scenario, number, folder) as file:
        replay = Replay(step, file)
        engine = EmbeddedEngine(
            folder, passphrase=lambda: PASSPHRASE, environment={}, parallel=1, host=lambda _address: replay
        )
        engine._keys = KEYS
        is_preview = step["do"] == "preview" or "--preview-only" in step["args"]
        program = None if step["do"] == "destroy" else scenario.program(number)
        run = await engine._ran(STACK, EventLog(), program=program, config=scenario.config_at(number), dry=is_preview)
        if not is_preview:
            engine._save(run, step["do"])
        return Replayed(run, replay, json.loads(file.read_text())["checkpoint"]["latest"], answers)


def vault_of(latest: dict[str, Any]) -> PassphraseVault:
    salt = (latest.get("secrets_providers") or {}).get("state", {}).get("salt", "")
    return PassphraseVault(lambda: PASSPHRASE, salt=salt, keys=KEYS, stack="dev")


@pytest.mark.parametrize(("scenario", "number"), list(_steps()))
async def test_a_step_is_what_the_cli_did(
    scenario: Scenario, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = scenario.steps[number]
    done = await replayed(scenario, number, tmp_path, monkeypatch)

    if number in RACES.get(scenario.name, ()):
        _compare_what_failed(done, step)
        return
    assert done.replay.problems == []
    assert done.replay.not_made() == []
    assert (error_of(done.run, step["do"]) is None) == (step["exit"] == 0)
    assert _told(done.run) == _recorded(step)
    assert _errors_told(done.run) == _errors_recorded(step)
    assert done.run.counts == _summary(step)["resourceChanges"]
    assert canonical(done.answers) == canonical(_answers(step))
    recorded = scenario.checkpoint_before(number + 1)["checkpoint"]["latest"]
    _in_order(done, recorded)
    _in_order(done, scenario.checkpoint_before(number)["checkpoint"]["latest"])
    assert _but_creates(done.latest) == _but_creates(recorded)
    assert resources_of(done.latest, vault_of(done.latest)) == resources_of(recorded, vault_of(recorded))


@pytest.mark.parametrize(("name", "number", "feature"), [(name, *refused) for name, refused in REFUSED.items()])
async def test_what_only_the_cli_does_is_refused_by_name(
    name: str, number: int, feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await replayed(Scenario(name), number, tmp_path, monkeypatch)
    error = error_of(done.run, "up")
    assert isinstance(error, UnsupportedByEmbeddedError)
    assert error.what == feature
    assert "the pulumi CLI does" in error.message


@pytest.mark.parametrize(("name", "number"), [key for key in OURS if key[0] != "provider_errors" or key[1] == 8])
async def test_a_version_of_the_plugin_is_refused_by_name(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await replayed(Scenario(name), number, tmp_path, monkeypatch)
    error = error_of(done.run, "up")
    assert isinstance(error, UnsupportedByEmbeddedError)
    assert error.what == "a version of the provider plugin"


def test_every_recorded_scenario_has_its_place_in_the_table() -> None:
    tables = [set(REPRODUCED), set(REFUSED), set(NOT_REPLAYED)]
    assert sum(map(len, tables)) == len(set.union(*tables)) == 44
    assert {file.name.removesuffix(".json.gz") for file in FOLDER.glob("*.json.gz")} == tables[0] | tables[1]


def _in_order(done: Replayed, recorded: dict[str, Any]) -> None:
    """What something depends on is changed before it, and deleted after it."""
    at = {(rpc, request.get("urn")): index for index, (rpc, request) in enumerate(done.replay.made)}
    for resource in deployment_from_doc(recorded).resources:
        for needed in resource.needs():
            for mine, theirs in product(("Create", "Update"), repeat=2):
                if {(mine, resource.urn), (theirs, needed)} <= at.keys():
                    assert at[theirs, needed] < at[mine, resource.urn]
            if {("Delete", resource.urn), ("Delete", needed)} <= at.keys():
                assert at["Delete", resource.urn] < at["Delete", needed]


def _compare_what_failed(done: Replayed, step: dict[str, Any]) -> None:
    failed = {urn for urn, _ in _errors_recorded(step)}
    assert error_of(done.run, step["do"]) is not None
    assert _errors_told(done.run) == _errors_recorded(step)
    for urn in failed:
        assert [p for p in done.replay.problems if urn in p] == []
        assert [c for c in done.replay.not_made() if urn in c] == []
        assert _told(done.run).get(urn) == _recorded(step).get(urn)


def _but_creates(latest: dict[str, Any]) -> list[tuple[str, str]]:
    """Operations that have not ended. The CLI keeps an interrupted create for ever; we until it was repeated."""
    return [(kind, urn) for kind, urn in pending_of(deployment_from_doc(latest)) if kind != "creating"]


def _told(run: Run) -> dict[str, list[Any]]:
    told = defaultdict(list)
    for event in run.events.events:
        if isinstance(event, StepEvent):
            step = event.step
            told[step.urn].append(
                (event.phase, str(step.op), sorted(step.keys), sorted(step.diffs), dict(step.detailed or {}))
            )
    return dict(told)


def _recorded(step: dict[str, Any]) -> dict[str, list[Any]]:
    told = defaultdict(list)
    for event in step["events"]:
        if event["kind"] in KINDS:
            told[event["urn"]].append(
                (
                    KINDS[event["kind"]],
                    event["op"],
                    sorted(event.get("keys", [])),
                    sorted(event.get("diffs", [])),
                    event.get("detailedDiff", {}),
                )
            )
    return dict(told)


def _errors_told(run: Run) -> list[tuple[str, str]]:
    return sorted(
        (e.urn, e.message.rstrip()) for e in run.events.events if isinstance(e, Diagnostic) and e.severity == "error"
    )


def _errors_recorded(step: dict[str, Any]) -> list[tuple[str, str]]:
    """The stack's own closing line only says that there were others."""
    return sorted((e["urn"], e["message"].rstrip()) for e in step["events"] if e["kind"] == "error" and e["urn"])


def _summary(step: dict[str, Any]) -> dict[str, Any]:
    return next(event for event in step["events"] if event["kind"] == "summary")


def _answers(step: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{call['request']['type']} {call['request']['name']}": call["response"]
        for call in step["monitor"]
        if call["method"] == "RegisterResource" and "response" in call
    }
