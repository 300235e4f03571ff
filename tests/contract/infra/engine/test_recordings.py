"""The embedded engine against recordings of the pulumi CLI: same steps, same provider calls, same state."""

import asyncio
import json
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hermesops.infra.engine.embedded.run.events import Diagnostic, StepEvent
from hermesops.infra.engine.embedded.run.stack_run import Run
from hermesops.infra.engine.embedded.state.deployment import deployment_from_doc
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.options import UnsupportedByEmbeddedError
from tests.support.engine.conformance import (
    SCENARIOS,
    Elsewhere,
    Refused,
    Reproduced,
    raced,
    replayed_steps,
    steps_not_replayed,
)
from tests.support.engine.recordings import FOLDER, PASSPHRASE, Scenario, canonical, pending_of, resources_of
from tests.support.engine.replay import KEYS, Replayed, replayed

FOUND_CHANGES = 7
NOT_OURS = {
    "--clear-pending-creates",
    "--continue-on-error",
    "--exclude",
    "--exclude-protected",
    "--import-pending-creates",
    "--refresh",
    "--replace",
    "--run-program",
    "--target",
    "--target-dependents",
}
"""Flags that our engines do not have; the steps that use them (``--target`` with a wildcard) are not replayed."""

KINDS = {"resourcePreEvent": "pre", "resOutputsEvent": "outputs", "resOpFailedEvent": "failed"}


def vault_of(latest: dict[str, Any]) -> PassphraseVault:
    salt = (latest.get("secrets_providers") or {}).get("state", {}).get("salt", "")
    return PassphraseVault(lambda: PASSPHRASE, salt=salt, keys=KEYS, stack="dev")


def test_a_recorded_key_is_the_one_that_is_derived() -> None:
    salt, key = next(iter(KEYS.items()))
    assert PassphraseVault(lambda: PASSPHRASE, salt=salt, keys={}, stack="dev").unlock() == key


@pytest.mark.parametrize("name", [name for name, place in SCENARIOS.items() if isinstance(place, Reproduced)])
async def test_a_step_is_what_the_cli_did(name: str, tmp_path: Path) -> None:
    """Each step of a scenario by itself, on the state that the CLI left before it."""
    failed = dict[int, AssertionError]()
    scenario = Scenario(name)
    numbers = replayed_steps(scenario)
    for number in numbers:
        (folder := tmp_path / str(number)).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            try:
                await _compare(scenario, number, folder, patch)
            except AssertionError as error:
                failed[number] = error
    assert numbers
    assert not failed, "\n".join(f"step {number}: {error}" for number, error in failed.items())


async def _compare(scenario: Scenario, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = scenario.steps[number]
    done = await replayed(scenario, number, folder, monkeypatch)

    if raced(scenario, number):
        _compare_what_failed(done, step)
        return
    assert done.replay.problems == []
    assert done.replay.not_made() == []
    assert (done.run.error(step["do"]) is None) == (step["exit"] in {0, FOUND_CHANGES})
    if step.get("events"):  # the CLI tells none of an import by hand
        assert _told(done.run) == _recorded(step)
        assert _errors_told(done.run) == _errors_recorded(step)
        assert done.run.counts == _summary(step)["resourceChanges"]
    for entry in step.get("history") or ():
        assert done.run.counts == entry["resourceChanges"]
    assert canonical(done.answers) == canonical(_answers(step))
    recorded = scenario.checkpoint_before(number + 1)["checkpoint"]["latest"]
    _in_order(done, recorded)
    _in_order(done, scenario.checkpoint_before(number)["checkpoint"]["latest"])
    assert _but_creates(done.latest) == _but_creates(recorded)
    assert resources_of(done.latest, vault_of(done.latest)) == resources_of(recorded, vault_of(recorded))


INTERRUPTED = [(1, "CANCELLED"), (2, ""), (5, "CANCELLED")]


@pytest.mark.parametrize(("number", "code"), INTERRUPTED)
async def test_an_interrupted_step_ends_as_with_the_cli(
    number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call under way ends, by Cancel or by itself; what it made is written down, and nothing new is begun."""
    scenario = Scenario("interrupt")
    (call,) = [c for c in scenario.steps[number]["rpc"] if c["rpc"] in {"Create", "Delete"}]
    assert call.get("error", {}).get("code", "") == code

    def interrupt() -> None:
        task.cancel()

    task = asyncio.create_task(replayed(scenario, number, tmp_path, monkeypatch, at_change=interrupt))
    with pytest.raises(asyncio.CancelledError):
        await task
    latest = json.loads((tmp_path / ".pulumi/stacks/rec/dev.json").read_text())["checkpoint"]["latest"]
    recorded = scenario.checkpoint_before(number + 1)["checkpoint"]["latest"]
    assert "pending_operations" not in latest
    assert resources_of(latest, vault_of(latest)) == resources_of(recorded, vault_of(recorded))


@pytest.mark.parametrize("name", [name for name, place in SCENARIOS.items() if isinstance(place, Refused)])
async def test_what_only_the_cli_does_is_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = SCENARIOS[name]
    assert isinstance(place, Refused)
    done = await replayed(Scenario(name), place.step, tmp_path, monkeypatch)
    error = done.run.error("up")
    assert isinstance(error, UnsupportedByEmbeddedError)
    assert error.what == place.feature
    assert "the pulumi CLI does" in error.message


@pytest.mark.parametrize(("name", "number"), [("provider_config", 15), ("provider_errors", 8)])
async def test_a_version_of_the_plugin_is_refused_by_name(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await replayed(Scenario(name), number, tmp_path, monkeypatch)
    error = done.run.error("up")
    assert isinstance(error, UnsupportedByEmbeddedError)
    assert error.what == "a version of the provider plugin"


def test_every_recorded_scenario_has_its_place_in_the_table() -> None:
    assert len(SCENARIOS) == 44
    recorded = {name for name, place in SCENARIOS.items() if not isinstance(place, Elsewhere)}
    assert {file.name.removesuffix(".json.gz") for file in FOLDER.glob("*.json.gz")} == recorded
    assert {flag for *_, flags in steps_not_replayed() for flag in flags} <= NOT_OURS


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
    assert done.run.error(step["do"]) is not None
    assert _errors_told(done.run) == _errors_recorded(step)
    for urn in failed:
        assert [p for p in done.replay.problems if urn in p] == []
        assert [c for c in done.replay.not_made() if urn in c] == []
        assert _told(done.run).get(urn) == _recorded(step).get(urn)


def _but_creates(latest: dict[str, Any]) -> list[tuple[str, str]]:
    """Operations that have not ended. The CLI keeps an interrupted create for ever; we until it was repeated."""
    return [(kind, urn) for kind, urn in pending_of(deployment_from_doc(latest)) if kind != "creating"]


def _told(run: Run) -> dict[str, list[Any]]:
    by_series = defaultdict(list)
    for event in run.events.events:
        if isinstance(event, StepEvent):
            step = event.step
            by_series[step.urn].append(
                (event.phase, str(step.op), sorted(step.keys), sorted(step.diffs), dict(step.detailed or {}))
            )
    return dict(by_series)


def _recorded(step: dict[str, Any]) -> dict[str, list[Any]]:
    by_series = defaultdict(list)
    for event in step["events"]:
        if event["kind"] in KINDS:
            by_series[event["urn"]].append(
                (
                    KINDS[event["kind"]],
                    event["op"],
                    sorted(event.get("keys", [])),
                    sorted(event.get("diffs", [])),
                    event.get("detailedDiff", {}),
                )
            )
    return dict(by_series)


def _errors_told(run: Run) -> list[tuple[str, str]]:
    errors = [e for e in run.events.events if isinstance(e, Diagnostic) and e.severity == "error" and e.urn]
    return sorted((e.urn, e.message.rstrip()) for e in errors)


def _errors_recorded(step: dict[str, Any]) -> list[tuple[str, str]]:
    """The stack's own closing line only says that there were others."""
    return sorted((e["urn"], e["message"].rstrip()) for e in step["events"] if e["kind"] == "error" and e["urn"])


def _summary(step: dict[str, Any]) -> dict[str, Any]:
    return next(event for event in step["events"] if event["kind"] == "summary")


def _answers(step: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{call['request']['type']} {call['request']['name']}": call["response"]
        for call in step.get("monitor", ())
        if call["method"] == "RegisterResource" and "response" in call
    }
