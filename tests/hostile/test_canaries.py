"""Every secret that an environment can hold is planted, and found nowhere but where it belongs.

What is run here starts every kind of child that a simulated world has; ``make soak`` runs every command.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.base import child_environment
from hermesops.infra.engine.cli_command import CleanCommand
from hermesops.machines.converge.playbook import Access, Converger, _to_end
from hermesops.machines.converge.results import EventFold
from tests.support.hostile.canaries import canary_commands
from tests.support.hostile.canaries.canary_run import search
from tests.support.hostile.canaries.planted import (
    ALLOWED,
    COMMAND,
    PLUGIN,
    SERVER,
    Canaries,
    Leak,
    in_files,
    in_output,
    watching,
)
from tests.support.real.commands.command import Ran
from tests.support.real.stores import postgresql
from tests.support.suite.prerequisites import require


async def test_no_command_of_a_shard_leaks_a_secret(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    lines = [line for path in canary_commands.SHARD for line in canary_commands.words_of(path)]
    searched = await search(tmp_path, lines)
    sys.stderr.write(searched.table())
    assert searched.leaks == set()
    assert {COMMAND, SERVER, PLUGIN} <= set(searched.seen), "a child that is not watched proves nothing"


def test_every_command_is_run_or_explained() -> None:
    known = set(canary_commands.EXPLAINED)
    missing = [
        path for path in canary_commands.all_commands() if path not in known and not any(canary_commands.words_of(path))
    ]
    assert missing == []


def test_a_leak_is_found(tmp_path: Path) -> None:
    """The search itself: a child that inherits, a command line, an output, a file."""
    canaries = Canaries({"HERMESOPS_API_KEY": "canary-x"}, {"HERMESOPS_API_KEY": b"canary-x"})
    with watching(canaries) as watcher:
        for words, given in ((["sleep", "0.5"], {"X": "canary-x"}), (["sh", "-c", "sleep 0.5; : canary-x"], {})):
            subprocess.run(words, env={"PATH": os.defpath, **given}, check=True)
    assert watcher.leaks == {
        Leak("HERMESOPS_API_KEY", "sleep: environment"),
        Leak("HERMESOPS_API_KEY", "sh: command line"),
    }
    (tmp_path / "journal").write_text("a canary-x b")
    assert in_files(canaries, tmp_path) == {Leak("HERMESOPS_API_KEY", str(tmp_path / "journal"))}
    assert in_output(canaries, [Ran(("x",), 0, "canary-x", "", 0.0)])


def test_the_table_of_allowed_places_names_only_what_is_planted() -> None:
    planted = set(Canaries.planted("postgresql:///x?host=/x").marks)
    assert {name for names in ALLOWED.values() for name in names} <= planted


def plant(monkeypatch: pytest.MonkeyPatch) -> Canaries:
    """Canaries in this very process, for children that no command of a simulated world starts."""
    canaries = Canaries.planted("postgresql:///x?host=/x")
    for name, text in canaries.variables.items():
        monkeypatch.setenv(name, text)
    return canaries


async def test_ansible_sees_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canaries, path = plant(monkeypatch), tmp_path / "seen"
    (tmp_path / "play.yml").write_text(
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n"
        f"    - ansible.builtin.shell: cat /proc/self/environ /proc/$PPID/environ > {path}\n"
    )
    for name, text in (("inventory.yml", "localhost:\n"), ("variables.json", "{}\n"), ("ansible.cfg", "")):
        (tmp_path / name).write_text(text)
    converger = Converger(tmp_path, Access("https://api.example", tmp_path / "key"))
    arguments = converger._arguments(tmp_path, tmp_path / "play.yml", check=False, timeout_s=120)
    with watching(canaries) as watcher:
        status = await _to_end(arguments, EventFold(("localhost",), None))
    assert status == "successful"
    assert b"ANSIBLE_CONFIG" in path.read_bytes()
    assert watcher.leaks == set()
    assert in_files(canaries, tmp_path) == set()


async def test_the_pulumi_cli_sees_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the CLI's place, since no registry ships the CLI: what the SDK would have handed on."""
    canaries, path = plant(monkeypatch), tmp_path / "seen"
    program = tmp_path / "pulumi"
    program.write_text(f'#!/bin/sh\nenv >> {path}\n[ "$1" = version ] && echo v3.200.0\nexit 0\n')
    program.chmod(0o755)
    given = child_environment.made(child_environment.PULUMI)
    command = CleanCommand(program, given)
    result = await asyncio.to_thread(command.run, ["stack", "ls"], str(tmp_path), {"PULUMI_BACKEND_URL": "file:///x"})
    assert result.code == 0
    assert b"PULUMI_BACKEND_URL" in path.read_bytes()
    assert in_files(canaries, tmp_path) == set()


@pytest.mark.parametrize("names", ["PACKAGES", "GO", "NETWORK", "SSH_AGENT"])
def test_no_list_of_names_hands_one_on(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canaries = plant(monkeypatch)
    given = child_environment.made(getattr(child_environment, names))
    done = subprocess.run(["env"], env=given, capture_output=True, check=True)
    assert set(canaries.within(done.stdout)) == set()
