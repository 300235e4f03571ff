"""The project ``pulumi/fleet`` as Pulumi's own CLI runs it: which program, and what stops it in one line.

The embedded engine stands in for the CLI: it runs ``__main__.py`` with the stack's name, as the CLI's host does.
"""

import json
import runpy
import sys
from pathlib import Path

import pulumi
import pytest

from hermesops.app import Container
from hermesops.app.fleet_program import fleet_program
from hermesops.base import assets
from hermesops.infra.engine.embedded.state import secrets
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.stacks.fleet import FleetProgram
from hermesops.model.stack import StackRef
from hermesops.settings.environment import Environment
from tests.support.engine.fake_stack import FakeStack
from tests.support.real.stores.registries import CELL, placed

SALT = "v1:kgKIYwLxPJU=:v1:MTRsYmm82w+sxmKi:D6o7Ee79HNQA4g56qGazfC43QCV/kQ=="
OTHER = "v1:2iw3vNn+TcY=:v1:ZHCViKEMRemN7cdb:LHG1pVQiE2THeZhaAxCPI2x5cFDv9g=="


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    """An environment with one cell, and a person in a project's folder with its Python environment activated."""
    monkeypatch.setenv("HERMESOPS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pulumi, "get_stack", lambda: str(CELL))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    container = Container(Environment.load(), pytest.fail)
    placed(container.registry)
    return container


def seal(app: Container, salt: str) -> Path:
    file = Path(app.pulumi_backend) / ".pulumi" / "stacks" / "fleet" / f"{CELL}.json"
    file.parent.mkdir(parents=True)
    provider = {"secrets_providers": {"type": "passphrase", "state": {"salt": salt}}} if salt else {}
    latest = {**provider, "metadata": {}}
    file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": f"organization/fleet/{CELL}", "latest": latest}}))
    return file


def stops_with() -> str:
    with pytest.raises(pulumi.RunError) as raised:
        fleet_program()
    assert raised.value.__cause__ is None
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_program_is_the_selected_cells(app: Container) -> None:
    program = fleet_program()
    assert isinstance(program, FleetProgram)
    assert program.spec == app.registry.cells.spec(CELL)
    assert program.spec.machines


def test_a_stack_that_is_no_cell_is_one_line(app: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    del app
    monkeypatch.setattr(pulumi, "get_stack", lambda: "cell9")
    assert stops_with() == "no cell 'cell9'; nearest: cell1: hermesops cell list"


def test_a_missing_plugin_is_named(app: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    del app
    monkeypatch.setenv("PATH", "/nowhere")
    assert stops_with().startswith("pulumi-resource-justavps is not on PATH: activate")


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_salt_that_is_not_the_states_stops_the_run(app: Container, quote: str) -> None:
    """The CLI has written it before the program runs, for a passphrase of anybody's (recorded: passphrase, step 17)."""
    seal(app, SALT)
    Path(f"Pulumi.{CELL}.yaml").write_text(f"config: {{}}\nencryptionsalt: {quote}{OTHER}{quote}\n")
    message = stops_with()
    assert f"Pulumi.{CELL}.yaml has another salt than the state of stack {CELL}" in message
    assert "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER=true" in message
    Path(f"Pulumi.{CELL}.yaml").write_text(f"encryptionsalt: {quote}{SALT}{quote}\n")
    assert isinstance(fleet_program(), FleetProgram)


@pytest.mark.parametrize(
    ("state", "settings"), [("", f"encryptionsalt: {OTHER}\n"), (SALT, "config: {}\n"), (SALT, None)]
)
def test_a_salt_that_only_one_of_them_has_stops_nobody(app: Container, state: str, settings: str | None) -> None:
    seal(app, state)
    if settings is not None:
        Path(f"Pulumi.{CELL}.yaml").write_text(settings)
    assert isinstance(fleet_program(), FleetProgram)


@pytest.mark.parametrize(
    ("text", "in_file", "stops"),
    [
        ("the right one", None, False),
        ("another", None, True),
        ("", "the right one", True),  # even an empty one wins over the file (recorded: passphrase, step 11)
        (None, "the right one\n", False),
        (None, "another", True),
        (None, None, False),  # asked for by the CLI
    ],
)
def test_another_passphrase_stops_the_run(
    app: Container, monkeypatch: pytest.MonkeyPatch, text: str | None, in_file: str | None, *, stops: bool
) -> None:
    """The CLI itself asks for it only when it meets a secret, where it takes the salt from the state."""
    monkeypatch.setattr(secrets, "ROUNDS", 10)
    vault = PassphraseVault(lambda: "the right one", salt="", keys={}, stack=CELL)
    vault.seal()
    seal(app, vault.salt)
    if text is not None:
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", text)
    if in_file is not None:
        Path("passphrase").touch(mode=0o600)
        Path("passphrase").write_text(in_file)
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "passphrase")
    if stops:
        assert stops_with().startswith(f"stack {CELL}: incorrect passphrase: ")
    else:
        assert isinstance(fleet_program(), FleetProgram)


async def test_the_projects_main_runs_it(app: Container, tmp_path: Path) -> None:
    del app
    stack = FakeStack(tmp_path / "fake").install()
    main = assets.folder("pulumi") / "fleet" / "__main__.py"
    preview = await stack.engine().preview(StackRef("fleet", CELL), lambda: runpy.run_path(str(main)))
    assert [change.type for change in preview.changes] == [
        "pulumi:pulumi:Stack",
        "hermesops:fleet:Cell",
        "justavps:index:Machine",
    ]
