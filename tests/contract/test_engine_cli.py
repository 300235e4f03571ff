"""How the pulumi CLI is called: with a stand-in command that notes its arguments and environment.

What a real CLI makes of it is tested where there is one (test_engine_alternation.py).
"""

import json
from functools import partial
from pathlib import Path

import pytest

from hermesops.engine import make_engine
from hermesops.engine.choose import read_passphrase
from hermesops.engine.interface import Engine
from hermesops.errors import RefusedError, UnavailableError, UsageError
from tests.support.fake_stack import STACK, machines

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
  *version*) echo v3.272.0 ;;
  *"stack output"*) echo '{{}}' ;;
  *history*) echo '{history}' ;;
  *" {failing} "*) echo "{words}" >&2; exit 255 ;;
esac
"""


class StandIn:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.backend = folder / "backend"
        self.answer()
        (folder / "passphrase").write_text("words of this test")

    def answer(self, *, failing: str = "nothing", words: str = "") -> None:
        command = self.bin / "pulumi"
        command.write_text(COMMAND.format(history=json.dumps(HISTORY), failing=failing, words=words))
        command.chmod(0o755)

    def state(self, **latest: object) -> None:
        file = self.backend / ".pulumi" / "stacks" / "rec" / "dev.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "organization/rec/dev", "latest": latest}}))

    def calls(self) -> str:
        return (self.bin / "calls").read_text()

    def engine(self) -> Engine:
        return make_engine(
            "cli",
            production=True,
            backend=self.backend,
            passphrase=partial(read_passphrase, self.folder / "passphrase"),
            plugin_environment={"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "OURS": "passed on"},
            plugin_folders=[Path("/plugins")],
            parallel=7,
        )


@pytest.fixture
def cli(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


async def test_the_cli_is_told_where_the_state_is_and_how_many_steps_at_once(cli: StandIn) -> None:
    cli.state(secrets_providers={"type": "passphrase", "state": {"salt": SALT}}, metadata={})
    done = await cli.engine().up(STACK, machines([]))
    assert done.changes == ()
    said = cli.calls()
    assert f"PULUMI_BACKEND_URL=file://{cli.backend}" in said
    assert "PULUMI_CONFIG_PASSPHRASE=words of this test" in said
    assert f"/plugins:{cli.bin}:/usr/bin" in said
    assert "OURS=passed on" in said
    assert "--parallel 7" in said
    assert f"encryptionsalt: {SALT}" in said


async def test_a_locked_stack_is_a_refusal(cli: StandIn) -> None:
    cli.answer(failing="up", words="error: the stack is currently locked by 1 lock(s). Either wait")
    with pytest.raises(RefusedError, match="currently locked by 1"):
        await cli.engine().up(STACK, machines([]))


async def test_interrupted_creates_are_looked_at_first(cli: StandIn) -> None:
    resource = {
        "urn": "urn:pulumi:dev::rec::aws:ec2/instance:Instance::b",
        "type": "aws:ec2/instance:Instance",
        "custom": True,
    }
    cli.state(pending_operations=[{"type": "creating", "resource": resource}])
    with pytest.raises(RefusedError, match="began to create b") as caught:
        await cli.engine().up(STACK, machines(["b"]))
    assert "--clear-pending-creates" in caught.value.hint
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
    with pytest.raises(UsageError, match="no stack dev"):
        await cli.engine().destroy(STACK)
