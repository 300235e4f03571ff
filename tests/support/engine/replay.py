"""Does one recorded step with the embedded engine, on the state that the CLI left before it."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from hermesops.infra.engine.embedded.engine import EmbeddedEngine
from hermesops.infra.engine.embedded.protocol.values import Message
from hermesops.infra.engine.embedded.run import program as program_module
from hermesops.infra.engine.embedded.run.events import EventLog
from hermesops.infra.engine.embedded.run.program import Monitor
from hermesops.infra.engine.embedded.run.stack_run import Run
from hermesops.infra.engine.options import EngineConfig, RunKind, RunOptions
from tests.support.engine.recordings import FOLDER, PASSPHRASE, STACK, Replay, Scenario, state_of

KINDS: dict[str, RunKind] = {"destroy": "destroy", "refresh": "refresh", "cli": "import"}
"""What recorded steps do that run no program."""

KEYS = {salt: bytes.fromhex(key) for salt, key in json.loads((FOLDER / "keys.json").read_text()).items()}
"""Keys of the recorded states' secrets by their salt lines; each takes half a second to derive."""


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

    monkeypatch.setattr(program_module, "Monitor", Heard)
    with state_of(scenario, number, folder) as file:
        replay = Replay(step, file, looks_up=scenario.killed_in_a_create(number))
        replay.at_change = at_change
        engine = EmbeddedEngine(EngineConfig(folder, lambda: PASSPHRASE, environment={}, parallel=1))
        engine.plugins.host = lambda: replay
        engine._keys = KEYS
        is_preview = step["do"] == "preview" or "--preview-only" in step["args"]
        kind = KINDS.get(step["do"], "up")
        options = RunOptions(
            program=scenario.program(number) if kind == "up" else lambda: None,
            imports=[scenario.imported(number)] if kind == "import" else [],
            targets=scenario.targets(number),
            config=scenario.config_at(number),
        )
        async with nullcontext() if is_preview else engine._locked(STACK) as lock:
            run = await engine._run(STACK, kind, options, EventLog(), lock=lock)
            if not is_preview:
                engine._save(run, kind)
        return Replayed(run, replay, json.loads(file.read_text())["checkpoint"]["latest"], answers)
