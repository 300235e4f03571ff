"""How the pulumi CLI is called: with a stand-in command that notes its arguments and environment.

What a real CLI makes of it is tested where there is one (test_engine_alternation.py).
"""

import contextlib
import json
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pulumi.automation import Stack
from pulumi.automation._cmd import CommandResult
from pulumi.automation.errors import CommandError

from hermesops.errors import PartlyDoneError, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.embedded.state import lock
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.lock import held
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import read_passphrase
from hermesops.model.stack import StackRef
from tests.support.engine.cli_events import line, step
from tests.support.engine.fake_stack import STACK, machines

if TYPE_CHECKING:
    from hermesops.infra.engine.options import Progress

SALT = "v1:kgKIYwLxPJU=:v1:MTRsYmm82w+sxmKi:D6o7Ee79HNQA4g56qGazfC43QCV/kQ=="
HISTORY = [
    {
        "kind": "update",
        "startTime": "2026-01-01T00:00:00.000Z",
        "endTime": "2026-01-01T00:00:00.000Z",
        "message": "",
        "environment": {},
        "config": {},
        "result": "succeeded",
        "version": 1,
        "resourceChanges": {},
    }
]
COMMAND = """#!/bin/sh
here=$(dirname "$0")
{{ echo "$@"; env; cat Pulumi.*yaml 2>/dev/null; }} >> "$here/calls"
case "$*" in
  *version*) echo v{version} ;;
  *"stack select"*)
    chosen="${{PULUMI_HOME:-$HOME/.pulumi}}/workspaces"
    mkdir -p "$chosen"
    place=$(printf %s "$(pwd -P)/Pulumi.yaml" | sha1sum | cut -d" " -f1)
    echo '{{"stack": "dev"}}' > "$chosen/rec-$place-workspace.json" ;;
  *" {dying} "*)
    locks={backend}/.pulumi/locks/organization/rec/dev
    mkdir -p "$locks"
    echo '{{"pid": '$$', "username": "u", "hostname": "{host}", "timestamp": "2026-01-01"}}' > "$locks/cli.json"
    while [ "$1" != --event-log ]; do shift; done
    printf '%s\n' '{event}' >> "$2"
    for _ in $(seq 300); do grep -q '"namespace"' "$locks/cli.json" && break; sleep 0.1; done
    kill -9 $$ ;;
  *"stack output"*) echo '{{}}' ;;
  *history*) echo '{history}' ;;
  *" {failing} "*) echo "{words}" >&2; exit 255 ;;
esac
"""


EVENT = {
    "sequence": 0,
    "timestamp": 0,
    "diagnosticEvent": {
        "prefix": "warning: ",
        "message": "using pulumi-resource-justavps from $PATH at /bin/pulumi-resource-justavps\n",
        "color": "never",
        "severity": "warning",
    },
}
"""What the CLI tells first (recorded: program_error, step 3)."""

EVENTS_IN_A_FILE = "3.205.0"
"""The last version whose events the Automation API takes from a file, which a shell script can write."""


class StandIn:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.backend = folder / "backend"
        self.answer()
        (folder / "passphrase").write_text("words of this test")
        (folder / "passphrase").chmod(0o600)

    def answer(self, *, failing: str = "nothing", words: str = "", dying: str = "nothing") -> None:
        command = self.bin / "pulumi"
        command.write_text(
            COMMAND.format(
                history=json.dumps(HISTORY),
                failing=failing,
                words=words,
                dying=dying,
                version="3.272.0" if dying == "nothing" else EVENTS_IN_A_FILE,
                backend=self.backend,
                host=socket.gethostname(),
                event=json.dumps(EVENT),
            )
        )
        command.chmod(0o755)

    def state(self, **latest: object) -> None:
        file = self.backend / ".pulumi" / "stacks" / "rec" / "dev.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "organization/rec/dev", "latest": latest}}))

    def calls(self) -> str:
        return (self.bin / "calls").read_text()

    def engine(
        self, *, token_of: Callable[[StackRef], tuple[int, int] | None] = lambda _: None, home: Path | None = None
    ) -> Engine:
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "OURS": "passed on"}
        return make_engine(
            "cli",
            EngineConfig(
                backend=self.backend,
                passphrase=partial(read_passphrase, self.folder / "passphrase"),
                environment=environment | ({"PULUMI_HOME": str(home)} if home else {}),
                plugin_folders=[Path("/plugins")],
                parallel=7,
                token_of=token_of,
            ),
            production=True,
        )

    def write_lock(self, **theirs: object) -> Path:
        """Write a lock as the embedded engine does, of a process that is not there; returns its file."""
        folder = FileBackend(self.backend).lock_folder(STACK)
        with held(folder, stack="dev", report=pytest.fail):
            (name,) = folder.files(".json")
            document = json.loads(folder.storage.read(name) or b"")
        document.update(pid=2**22 - 7)
        document["hermesops"].update({"started": "1", **theirs})
        file = self.backend / folder.name / "theirs.json"
        file.write_text(json.dumps(document))
        return file


@pytest.fixture
def cli(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


async def test_the_cli_is_told_where_the_state_is_and_how_many_steps_at_once(cli: StandIn) -> None:
    cli.state(secrets_providers={"type": "passphrase", "state": {"salt": SALT}}, metadata={})
    done = await cli.engine().up(STACK, machines([]))
    assert done.changes == ()
    calls = cli.calls()
    assert f"PULUMI_BACKEND_URL=file://{cli.backend}" in calls
    assert "PULUMI_CONFIG_PASSPHRASE=words of this test" in calls
    assert f"/plugins:{cli.bin}:/usr/bin" in calls
    assert "OURS=passed on" in calls
    assert "--parallel 7" in calls
    assert f"encryptionsalt: {SALT}" in calls


async def test_a_locked_stack_is_waited_for(cli: StandIn) -> None:
    cli.answer(failing="up", words="error: the stack is currently locked by 1 lock(s). Either wait")
    with pytest.raises(UnavailableError, match="currently locked by 1"):
        await cli.engine().up(STACK, machines([]))


async def test_a_dead_lock_of_the_embedded_engine_does_not_stop_the_cli(cli: StandIn) -> None:
    cli.state(metadata={})
    progress: list[Progress] = []
    engine = cli.engine()
    for change in (partial(engine.up, program=machines([])), engine.refresh, engine.destroy):
        dead = cli.write_lock()
        await change(stack=STACK, report=progress.append)
        assert not dead.exists()
        assert "which has ended" in progress.pop().message


async def test_a_living_lock_stops_the_cli_before_it_runs(cli: StandIn) -> None:
    theirs = cli.write_lock(host="another")
    with pytest.raises(UnavailableError, match="stack dev is locked by 1 other"):
        await cli.engine().up(STACK, machines([]))
    assert theirs.exists()
    assert not (cli.bin / "calls").exists()


async def test_a_lock_from_elsewhere_is_outranked_by_a_later_lease(
    cli: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "GRACE_S", 0)
    cli.state(metadata={})
    theirs = cli.write_lock(host="another", token=[1, 5])
    await cli.engine(token_of=lambda _: (1, 6)).up(STACK, machines([]))
    assert not theirs.exists()


async def test_a_cli_that_is_killed_leaves_no_lock_and_is_told_by_its_signal(cli: StandIn) -> None:
    """It dies as soon as its lock says whose child it is."""
    cli.answer(dying="up")
    progress: list[Progress] = []
    with pytest.raises(UnknownOutcomeError, match="up of stack dev: the pulumi CLI was killed by SIGKILL"):
        await cli.engine().up(STACK, machines([]), report=progress.append)
    assert FileBackend(cli.backend).lock_folder(STACK).files(".json") == []
    assert [line.message.partition(" of process")[0] for line in progress] == ["removed the lock"]


async def test_a_preview_marks_no_lock(cli: StandIn) -> None:
    """It takes none: what it finds there is another command's of this process."""
    cli.answer(failing="preview", words="error: nothing")
    engine = cli.engine()
    file = cli.backend / ".pulumi/locks/organization/rec/dev/cli.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(RefusedError, match="preview of stack dev failed: nothing"):
        await engine.preview(STACK, machines([]))
    assert file.read_text() == "{}"


@pytest.mark.parametrize("home", ["", "elsewhere"])
async def test_the_cli_keeps_nothing_of_the_folder_it_ran_in(cli: StandIn, home: str) -> None:
    theirs = cli.folder / (home or ".pulumi") / "workspaces" / "rec-another-workspace.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    cli.state(metadata={})
    engine = cli.engine(home=cli.folder / home if home else None)
    await engine.up(STACK, machines([]))
    cli.answer(failing="up", words="error: nothing")
    with pytest.raises(RefusedError, match="nothing"):
        await engine.up(STACK, machines([]))
    assert "stack select" in cli.calls()
    assert list(theirs.parent.iterdir()) == [theirs]


class ProgramBugError(Exception):
    """Of a program."""


def run_program(opened: Stack, **_options: Any) -> None:  # noqa: ANN401  whatever the engine passes
    """Do as the CLI with a program that raises: hand on the text and exit (recorded: program_error, step 3)."""
    program = opened.workspace.program
    assert program
    try:
        program()
    except Exception as error:
        raise CommandError(CommandResult("", f"error: an unhandled error occurred: {error}", 255)) from error


@pytest.mark.parametrize("raised", [ProgramBugError("a bug"), UsageError("there is no cell cell9")])
async def test_what_a_program_raises_comes_out_as_it_was_raised(
    cli: StandIn, raised: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "up", run_program)
    monkeypatch.setattr(Stack, "preview", run_program)

    def program() -> None:
        raise raised

    for run in (cli.engine().up, cli.engine().preview):
        with pytest.raises(type(raised)) as caught:
            await run(STACK, program)
        assert caught.value is raised


async def test_a_refusal_by_a_program_is_partly_done_where_something_changed_before(
    cli: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the embedded engine has it: a refusal promises that nothing changed."""

    def run(opened: Stack, **options: Any) -> None:  # noqa: ANN401  as above
        options["on_event"](step("resourcePreEvent", "create"))
        run_program(opened)

    monkeypatch.setattr(Stack, "up", run)
    monkeypatch.setattr(Stack, "preview", run)

    def program() -> None:
        raise RefusedError("no more", hint="look")

    with pytest.raises(PartlyDoneError, match=r"up of stack dev stopped: no more; done before: m \(create\)"):
        await cli.engine().up(STACK, program)
    with pytest.raises(RefusedError, match=r"^no more$"):
        await cli.engine().preview(STACK, program)


async def test_a_resource_that_failed_counts_more_than_what_its_program_raised(
    cli: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(opened: Stack, **options: Any) -> None:  # noqa: ANN401  as above
        options["on_event"](line("no capacity"))
        run_program(opened)

    monkeypatch.setattr(Stack, "up", run)

    def program() -> None:
        raise ProgramBugError("what followed")

    with pytest.raises(RefusedError, match="up of stack dev failed: m: no capacity"):
        await cli.engine().up(STACK, program)


LOST = (
    "failed to register new resource m: 14 UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: "
    "ipv4:127.0.0.1:41673: Failed to connect to remote host: Connection refused"
)
"""Seen in a loaded run of the CLI 3.259.0: the program does not reach the engine, which runs, for a moment."""


async def test_an_engine_that_is_not_reached_for_a_moment_is_no_refusal(
    cli: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> None:
        raise ProgramBugError(LOST)

    for begins, kind, exit_code in ((False, UnavailableError, 4), (True, PartlyDoneError, 6)):

        def run(opened: Stack, **options: Any) -> None:  # noqa: ANN401  as above
            if begins:  # noqa: B023 - called within the round
                options["on_event"](step("resourcePreEvent", "create"))
            run_program(opened)

        for verb in ("up", "destroy"):
            monkeypatch.setattr(Stack, verb, run)
        with pytest.raises(kind) as caught:
            await cli.engine().up(STACK, program)
        assert (caught.value.exit_code, "run" in str(caught.value.hint)) == (exit_code, True), begins
        assert not list(cli.backend.rglob("*.json")), "nothing is half made, nothing stays locked"


async def test_a_killed_cli_counts_more_than_what_its_program_raised(
    cli: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that meets the end of the CLI may raise, too."""

    def run(opened: Stack, **_options: Any) -> None:  # noqa: ANN401  as above
        assert opened.workspace.program
        with contextlib.suppress(ProgramBugError):
            opened.workspace.program()
        raise CommandError(CommandResult("", "", -15))

    monkeypatch.setattr(Stack, "up", run)

    def program() -> None:
        raise ProgramBugError("what followed")

    with pytest.raises(UnknownOutcomeError, match="killed by SIGTERM"):
        await cli.engine().up(STACK, program)


async def test_interrupted_creates_are_looked_at_first(cli: StandIn) -> None:
    resource = {
        "urn": "urn:pulumi:dev::rec::aws:ec2/instance:Instance::b",
        "type": "aws:ec2/instance:Instance",
        "custom": True,
    }
    cli.state(pending_operations=[{"type": "creating", "resource": resource}])
    with pytest.raises(RefusedError, match="began to create b") as caught:
        await cli.engine().up(STACK, machines(["b"]))
    assert "--clear-pending-creates" in str(caught.value.hint)
    assert not (cli.bin / "calls").exists()


async def test_state_and_outputs_are_read_without_the_cli(cli: StandIn) -> None:
    root = {
        "urn": "urn:pulumi:dev::rec::pulumi:pulumi:Stack::rec-dev",
        "type": "pulumi:pulumi:Stack",
        "outputs": {"a": 1},
    }
    cli.state(resources=[root])
    engine = cli.engine()
    assert await engine.outputs(STACK) == {"a": 1}
    assert (await engine.export(STACK))["deployment"]["resources"] == [root]
    assert await engine.stacks("rec") == [STACK]
    assert not (cli.bin / "calls").exists()


async def test_a_cli_that_does_not_run_is_unavailable(cli: StandIn) -> None:
    (cli.bin / "pulumi").write_text("not a program")
    with pytest.raises(UnavailableError, match="cannot be used"):
        await cli.engine().up(STACK, machines([]))


async def test_an_old_cli_is_named(cli: StandIn) -> None:
    text = (cli.bin / "pulumi").read_text()
    (cli.bin / "pulumi").write_text(text.replace("v3.272.0", "v2.0.0"))
    with pytest.raises(UnavailableError, match="version"):
        await cli.engine().preview(STACK, machines([]))


async def test_a_stack_that_is_not_there_is_a_usage_error(cli: StandIn) -> None:
    with pytest.raises(UsageError, match="no stack dev") as caught:
        await cli.engine().destroy(STACK)
    assert (
        str(caught.value.hint)
        == "nothing was created in it yet, or the stack was removed; hermesops stack up dev makes it"
    )
