"""Does one recorded step with the embedded engine, on the state that the CLI left before it."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from hermesops.engine.embedded.engine import EmbeddedEngine, Work
from hermesops.engine.embedded.protocol.monitor import Monitor
from hermesops.engine.embedded.protocol.opaque import Message
from hermesops.engine.embedded.run import stack_run as run_module
from hermesops.engine.embedded.run.events import EventLog
from hermesops.engine.embedded.run.stack_run import Run
from tests.support.recordings import PASSPHRASE, STACK, Replay, Scenario, state_of

KEYS: dict[str, bytes] = {}
"""Keys of the recorded states' secrets; each takes a second to derive."""


@dataclass
class Replayed:
    run: Run
    replay: Replay
    latest: dict[str, Any]
    answers: dict[str, Any]


async def replayed(
    scenario: Scenario,
    number: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    at_change: Callable[[], object] | None = None,
) -> Replayed:
    step = scenario.steps[number]
    answers: dict[str, Any] = {}

    class Heard(Monitor):
        def RegisterResource(self, request: Message) -> Message:  # noqa: N802
            response = super().RegisterResource(request)
            answers[f"{request.type} {request.name}"] = MessageToDict(response, preserving_proto_field_name=True)
            return response

    monkeypatch.setattr(run_module, "Monitor", Heard)
    with state_of(scenario, number, folder) as file:
        replay = Replay(step, file, looks_up=scenario.killed_in_a_create(number))
        replay.at_change = at_change
        engine = EmbeddedEngine(
            folder, passphrase=lambda: PASSPHRASE, environment={}, parallel=1, host=lambda _address: replay
        )
        engine._keys = KEYS
        is_preview = step["do"] == "preview" or "--preview-only" in step["args"]
        work, kind = _work(scenario, number)
        async with nullcontext() if is_preview else engine._locked(STACK, EventLog()) as lock:
            run = await engine._ran(
                STACK,
                EventLog(),
                work,
                kind,
                targets=scenario.targets(number),
                config=scenario.config_at(number),
                lock=lock,
            )
            if not is_preview:
                engine._save(run, kind)
        return Replayed(run, replay, json.loads(file.read_text())["checkpoint"]["latest"], answers)


def _work(scenario: Scenario, number: int) -> tuple[Work, str]:
    step = scenario.steps[number]
    match step["do"]:
        case "destroy":
            return Run.destroy, "destroy"
        case "refresh":
            return Run.refresh, "refresh"
        case "cli":
            return lambda run: run.take_in([scenario.imported(number)]), "resource-import"
        case _:
            return lambda run: run.program(scenario.program(number)), "update"
