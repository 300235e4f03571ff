"""What engines read of stacks' files and put into them, against what the CLI printed, refused and left behind."""

import copy
import json
import re
from pathlib import Path

import pytest

from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.stored_stacks import StoredStacks
from tests.support.engine.recordings import PASSPHRASE, STACK, Scenario, state_of
from tests.support.engine.replay import KEYS, replayed

EXPORT = 2
"""The recorded step whose export all imports start from."""

SIDECAR = ".attrs"
"""The CLI's blob library writes them beside each file and nobody needs them."""


def stored(folder: Path) -> StoredStacks:
    stacks = StoredStacks(FileBackend(folder), lambda: PASSPHRASE)
    stacks._keys = KEYS
    return stacks


def files_below(folder: Path) -> set[str]:
    names = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    return {re.sub(r"\d{15,}", "<NANOSECONDS>", name) for name in names}


@pytest.mark.parametrize("number", [5, 8])
async def test_outputs_are_what_the_cli_prints(number: int, tmp_path: Path) -> None:
    scenario = Scenario("stack_commands")
    with state_of(scenario, number, tmp_path):
        assert await stored(tmp_path).outputs(STACK) == json.loads(scenario.steps[number]["stdout"])


async def test_an_export_has_the_form_of_the_clis(tmp_path: Path) -> None:
    scenario = Scenario("export_import")
    recorded = scenario.steps[EXPORT]["returned"]["file"]
    with state_of(scenario, EXPORT, tmp_path):
        ours = await stored(tmp_path).export(STACK)
    assert ours["version"] == recorded["version"]
    assert ours["deployment"].keys() == recorded["deployment"].keys()
    named = [[r["urn"] for r in state["deployment"]["resources"]] for state in (ours, recorded)]
    assert named[0] == named[1]


@pytest.mark.parametrize(
    ("edit", "step", "refusal", "reason"),
    [
        ("", 3, None, ""),
        ("drop_m2", 5, None, ""),
        ("other_stack", 8, RefusedError, "belong to another stack than rec/dev"),
        ("no_version", 10, UsageError, "no exported state of version 3"),
        ("version4", 11, UsageError, "no exported state of version 3"),
        ("dangling", 12, RefusedError, "its dependency .* is missing before it"),
        ("twice", 13, RefusedError, "is there twice"),
        ("manifest", 14, RefusedError, "its magic is not that of its version"),
        ("pending", 17, None, ""),
    ],
)
async def test_an_import_takes_and_refuses_what_the_cli_does(
    edit: str, step: int, refusal: type[HermesError] | None, reason: str, tmp_path: Path
) -> None:
    scenario = Scenario("export_import")
    assert bool(scenario.steps[step]["returned"]["exit"]) == bool(refusal)
    with state_of(scenario, EXPORT, tmp_path) as file:
        stacks, before = stored(tmp_path), file.read_bytes()
        document = copy.deepcopy(await stacks.export(STACK))
        change = scenario._scope.get(edit, lambda _document: None)
        document = change(document) or document
        if refusal is not None:
            with pytest.raises(refusal, match=reason):
                await stacks.import_state(STACK, document)
            assert file.read_bytes() == before
            return
        await stacks.import_state(STACK, document)
        now = [r["urn"] for r in (await stacks.export(STACK))["deployment"]["resources"]]
        assert now == [r["urn"] for r in document["deployment"]["resources"]]
        # The CLI drops an unfinished create with a warning; ours keeps it, as something may be there.
        kept = [(op.kind, op.name) for op in await stacks.unfinished(STACK)]
        assert kept == ([("creating", "ghost")] if edit == "pending" else [])


async def test_an_operation_leaves_the_files_that_the_cli_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario("files")
    await replayed(scenario, 4, tmp_path, monkeypatch)
    recorded = {name for name in scenario.steps[5]["returned"] if not name.endswith(SIDECAR)}
    assert files_below(tmp_path) == recorded
