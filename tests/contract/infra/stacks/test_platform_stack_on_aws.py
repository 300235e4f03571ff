"""The stack of a platform on AWS: what each engine does with it, and the program as Pulumi's own CLI runs it."""

import asyncio
import subprocess
from functools import partial
from importlib import metadata
from pathlib import Path

import pulumi
import pytest

from hermesops.app.platform_program import platform_program
from hermesops.base import child_environment
from hermesops.errors import UsageError
from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.choose import find_cli
from hermesops.infra.engine.options import UnsupportedByEmbeddedError, read_passphrase
from hermesops.infra.stacks.platform.spec import PROJECT, Place, PlatformSpec
from hermesops.model.stack import ChangeKind, StackRef
from hermesops.settings.environment import Environment
from tests.support.engine.fake_stack import FakeStack
from tests.support.platform.environments import program_of, spec_of
from tests.support.platform.mock_aws import Run, run
from tests.support.real.aws_account import ACCOUNT, REGION, aws_account

STACK = StackRef(PROJECT, "staging")


@pytest.mark.turns(5)
async def test_the_embedded_engine_refuses_it_and_changes_nothing(tmp_path: Path) -> None:
    stack = FakeStack(tmp_path).install()
    program = program_of(spec_of("staging"))

    for attempt in (stack.engine().preview(STACK, program), stack.engine().up(STACK, program)):
        with pytest.raises(UnsupportedByEmbeddedError, match="the pulumi CLI does"):
            await attempt
    assert stack.machines() == []


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment on AWS, and a person in the project's folder."""
    folder = tmp_path / "home" / "staging"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(
        'pulumi.backend = "s3://hermesops-staging-state?region=eu-central-1"\n'
        f'platform.account = "{ACCOUNT}"\nplatform.region = "{REGION}"\n'
    )
    monkeypatch.setenv("HERMESOPS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("hermesops.platform.aws.by_hand.refuse_other_seal", lambda *_: None)  # it reads the bucket
    monkeypatch.setattr(pulumi, "get_stack", lambda: "staging")
    return folder


@pytest.mark.usefixtures("staging")
def test_by_hand_the_program_is_that_of_the_stacks_environment() -> None:
    program = platform_program()

    assert isinstance(program, type(program_of(_moved())))
    assert program.spec.place == Place("staging", ACCOUNT, REGION, "hermesops-staging-state")
    assert _kinds(run(program, program.spec.place)) == _kinds(run(program_of(_moved())))


def _moved() -> PlatformSpec:
    return PlatformSpec(Place("staging", ACCOUNT, REGION, "hermesops-staging-state"), spec_of("staging").sizes)


def _kinds(done: Run) -> list[tuple[str, str]]:
    return [(resource.type, resource.name) for resource in done.resources]


@pytest.mark.parametrize(
    ("stack", "settings", "expected"),
    [
        ("local", "", "the platform of a local world is not run by Pulumi's CLI"),
        ("staging", "", "environment staging has no platform.account and platform.region"),
        ("staging", f'platform.account = "{ACCOUNT}"\n', "environment staging has no platform.account"),
        ("staging", f'platform.account = "{ACCOUNT}"\nplatform.region = "{REGION}"\n', "not in a bucket"),
    ],
)
def test_what_is_missing_is_one_line(
    staging: Path, monkeypatch: pytest.MonkeyPatch, stack: str, settings: str, expected: str
) -> None:
    (staging / "settings.toml").write_text(settings)
    monkeypatch.setattr(pulumi, "get_stack", lambda: stack)

    with pytest.raises(pulumi.RunError, match=expected) as caught:
        platform_program()
    assert "\n" not in str(caught.value)


def test_an_environment_without_a_file_is_told_so(
    staging: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "home" / "other"
    other.mkdir()
    (other / "settings.toml").write_text((staging / "settings.toml").read_text())
    monkeypatch.setattr(pulumi, "get_stack", lambda: "other")

    with pytest.raises(pulumi.RunError, match=r"environment other has no file .*Pulumi\.other\.yaml"):
        platform_program()


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("anenvironmentwithtoolonganame", "", "too long for names of load balancers"),
        (
            "staging",
            '[web]\norigin = "https://pages.elsewhere.example"\n',
            r"under a name below staging\.hermes\.example",
        ),
    ],
)
def test_what_no_load_balancer_can_be_called_is_refused_before_anything_is_made(
    staging: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: str, expected: str
) -> None:
    folder = staging.parent / name
    folder.mkdir(exist_ok=True)
    (folder / "settings.toml").write_text((staging / "settings.toml").read_text() + settings)
    monkeypatch.setattr(pulumi, "get_stack", lambda: name)

    with pytest.raises(pulumi.RunError, match=expected):
        platform_program()


@pytest.mark.pulumi_cli
async def test_the_cli_with_its_plugin_previews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS is moto: who asks, and in which account, is all that a preview of an empty stack reads."""
    passphrase = tmp_path / "passphrase"
    passphrase.touch(mode=0o600)
    passphrase.write_text("for a test")
    with aws_account() as account:
        account.use(monkeypatch)
        variables = {**Environment.load().for_child(child_environment.PULUMI), **account.variables()}
        cli = find_cli(variables)
        if cli is None:
            raise UsageError("there is no pulumi CLI")
        version = metadata.version("pulumi-aws")
        install = [str(cli), "plugin", "install", "resource", "aws", f"v{version}"]
        await asyncio.to_thread(subprocess.run, install, check=True, env=variables)
        config = EngineConfig(tmp_path / "state", partial(read_passphrase, passphrase), variables)
        engine = make_engine("cli", config, production=False)

        preview = await engine.preview(STACK, program_of(_moved()))

    assert {change.kind for change in preview.changes} == {ChangeKind.CREATE}
    assert len(preview.changes) > 150
