"""Plugins that are not ours: what a computer without the pulumi CLI, or without the plugin, is told."""

from pathlib import Path

import pytest

from hermesops.errors import UsageError
from hermesops.infra.engine.foreign import ForeignPlugin, require_cli

AWS = ForeignPlugin("aws", "7.51.1")
COMMAND = "hermesops stack up platform"


def _environment(home: Path, *, cli: bool, plugin: bool) -> dict[str, str]:
    if cli:
        (home / ".pulumi" / "bin").mkdir(parents=True)
        (home / ".pulumi" / "bin" / "pulumi").touch(mode=0o755)
    environment = {"HOME": str(home), "PATH": "/nowhere"}
    if plugin:
        AWS.folder(environment).mkdir(parents=True)
    return environment


@pytest.mark.parametrize("kind", ["auto", "cli"])
def test_the_cli_with_the_plugin_runs_it(kind: str, tmp_path: Path) -> None:
    require_cli(kind, AWS, _environment(tmp_path, cli=True, plugin=True), command=COMMAND)


@pytest.mark.parametrize(
    ("kind", "cli", "why"),
    [
        ("embedded", True, "settings ask for the embedded engine"),
        ("auto", False, "there is none on PATH or in ~/.pulumi"),
        ("cli", False, "there is none on PATH or in ~/.pulumi"),
    ],
)
def test_without_the_cli_the_command_and_the_reason_are_told(kind: str, why: str, tmp_path: Path, *, cli: bool) -> None:
    with pytest.raises(UsageError) as caught:
        require_cli(kind, AWS, _environment(tmp_path, cli=cli, plugin=True), command=COMMAND)

    assert caught.value.message.startswith(f"{COMMAND} needs the pulumi CLI ({why}): it makes resources of aws")
    assert "pulumi-resource-aws" in caught.value.message
    assert "pulumi plugin install resource aws v7.51.1" in str(caught.value.hint)


def test_a_cli_that_lacks_the_plugin_is_told_how_to_get_it(tmp_path: Path) -> None:
    environment = _environment(tmp_path, cli=True, plugin=False)
    (tmp_path / ".pulumi" / "plugins" / "resource-aws-v7.50.0").mkdir(parents=True)

    with pytest.raises(UsageError, match=r"needs plugin pulumi-resource-aws 7\.51\.1") as caught:
        require_cli("auto", AWS, environment, command=COMMAND)
    assert "run `pulumi plugin install resource aws v7.51.1`" in str(caught.value.hint)


def test_another_home_of_pulumi_is_looked_into(tmp_path: Path) -> None:
    assert AWS.folder({"PULUMI_HOME": str(tmp_path)}) == tmp_path / "plugins" / "resource-aws-v7.51.1"
