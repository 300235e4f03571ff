"""The commands by which a host stops and starts the users' processes, in a real shell, with a systemctl that notes."""

import subprocess
from pathlib import Path

import pytest

from hermesops.platform.parts.users import UNITS, USERS_DOWN, USERS_UP

LISTS = ("scraped-api.json", "scraped-connections.json", "scraped-connector.json")


class Host:
    """The folders that the commands look at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.units, self.settings = folder / "etc/systemd/system", folder / "etc/hermes-platform"
        self.units.mkdir(parents=True)
        self.settings.mkdir(parents=True)
        tool = folder / "systemctl"
        tool.write_text(f'#!/bin/sh\necho "$1 $4" >>{folder}/done\n[ ! -e {folder}/fails ]\n')
        tool.chmod(0o755)

    def run(self, command: str) -> int:
        text = command.replace("/etc/", f"{self.folder}/etc/")
        return subprocess.run(
            ["sh", "-euc", text], env={"PATH": f"{self.folder}:/usr/bin:/bin"}, check=False
        ).returncode

    @property
    def done(self) -> list[str]:
        file = self.folder / "done"
        return file.read_text().splitlines() if file.exists() else []

    def lists(self) -> set[str]:
        return {file.name for file in self.settings.iterdir()}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_is_stopped_on_purpose_is_watched_no_more_until_it_is_started(host: Host) -> None:
    for unit in UNITS:
        (host.units / unit).touch()
    for name in (*LISTS, "scraped-edge.json"):
        (host.settings / name).write_text("[]")
    assert host.run(USERS_DOWN) == host.run(USERS_DOWN) == 0
    assert host.done == [f"disable {unit}" for unit in UNITS] * 2
    assert host.lists() == {"scraped-edge.json", *(f"{name}.off" for name in LISTS)}
    assert host.run(USERS_UP) == host.run(USERS_UP) == 0
    assert host.done[2 * len(UNITS) :] == [f"enable {unit}" for unit in UNITS] * 2
    assert host.lists() == {"scraped-edge.json", *LISTS}


def test_a_host_without_these_roles_passes(host: Host) -> None:
    assert host.run(USERS_DOWN) == host.run(USERS_UP) == 0
    assert not host.done


def test_a_process_that_does_not_start_is_a_failure_and_is_not_watched(host: Host) -> None:
    (host.units / UNITS[0]).touch()
    (host.settings / f"{LISTS[0]}.off").touch()
    (host.folder / "fails").touch()
    assert host.run(USERS_UP) == 1
    assert host.lists() == {f"{LISTS[0]}.off"}
