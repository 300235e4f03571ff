"""Backing up, restoring and switching an agent's state, in a folder, with the real restic."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.instance.personalise import configure, personalise
from hermesops.programs.node.state import adapter, backup, swap
from hermesops.programs.node.system import as_user
from hermesops.wire.errors import BadRequestError, NotReadyError, OutrankedError, RefusedError
from hermesops.wire.protocol import FencingToken
from hermesops.wire.state import tar_stream
from hermesops.wire.state.unpack import unpack
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.machines.node_home import PASSWORD, NodeHome, make
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(30)


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    require(shutil.which("restic") is not None, "restic")
    require(os.geteuid() == 0, "root")
    return make(tmp_path)


@dataclass(frozen=True)
class Kept:
    """A machine with one backup, for tests that change neither; restic takes a second of work for each start."""

    machine: NodeHome
    made: dict[str, Any]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    require(shutil.which("restic") is not None, "restic")
    require(os.geteuid() == 0, "root")
    machine = make(tmp_path_factory.mktemp("kept"))
    return Kept(machine, backup.backup(machine.node, machine.upload(), lease=None))


def _wreck(machine: NodeHome) -> None:
    (machine.home / "memories/USER.md").write_text("nothing")
    (machine.home / "cron/jobs.json").unlink()
    (machine.home / "since.txt").write_text("made since")
    machine.say("later")


def test_what_was_backed_up_comes_back_and_what_was_there_is_kept(machine: NodeHome) -> None:
    before = backup.state(machine.node)["state"]
    report = backup.backup(machine.node, machine.upload(), lease=None)
    assert report["state"] == before
    assert len(report["snapshot"]) == 64
    _wreck(machine)
    assert backup.state(machine.node)["state"] != before
    came = backup.restore(machine.node, machine.upload(snapshot=report["snapshot"]), lease=None)
    assert came["state"] == before == backup.state(machine.node)["state"]
    assert not (machine.home / "since.txt").exists()
    assert (machine.home / ".hermes-node/former/since.txt").read_text() == "made since"
    assert not machine.layout.restoring.exists()
    assert machine.layout.state_replaced.exists()


def test_a_fenced_machine_says_which_copy_it_holds_until_its_gateway_may_run(machine: NodeHome) -> None:
    personalise(machine.node, machine.personalised(), wait_s=0)
    report = backup.backup(machine.node, machine.upload(), lease=None)
    assert backup.state(machine.node)["restored"] == ""
    fencing.fence(machine.node, lease=None)
    backup.restore(machine.node, machine.upload(snapshot=report["snapshot"]), lease=None)
    assert backup.state(machine.node)["restored"] == report["snapshot"]
    assert fencing.is_fenced(machine.node)
    fencing.unfence(machine.node, lease=None)
    assert backup.state(machine.node)["restored"] == ""
    fencing.fence(machine.node, lease=None)
    assert backup.state(machine.node)["restored"] == ""


def test_the_former_state_goes_when_the_agent_is_well_again(machine: NodeHome) -> None:
    personalise(machine.node, machine.personalised(), wait_s=0)
    with (machine.layout.root / "copy").open("wb") as out:
        tar_stream.pack(machine.home, out)
    with (machine.layout.root / "copy").open("rb") as source:
        unpack(source, swap.incoming(machine.home))
    adapter.switch(agent_of(machine.node).home)
    configure(machine.node, wait_s=0)
    assert (machine.home / ".hermes-node/former").exists()
    configure(machine.node, wait_s=5)
    assert not (machine.home / ".hermes-node").exists()


def test_an_unchanged_state_adds_next_to_nothing(machine: NodeHome) -> None:
    (machine.home / "large").write_bytes(os.urandom(4 << 20))
    first = backup.backup(machine.node, machine.upload(), lease=None)
    second = backup.backup(machine.node, machine.upload(), lease=None)
    assert first["added"] > 4 << 20
    assert second["added"] < 4096


def test_files_that_are_only_written_again_add_next_to_nothing(machine: NodeHome) -> None:
    for number in range(40):
        (machine.home / f"skills/{number}").mkdir(parents=True)
        (machine.home / f"skills/{number}/large").write_bytes(os.urandom(100_000))
    backup.backup(machine.node, machine.upload(), lease=None)
    before = _bytes_in(machine.repository)
    for path in machine.home.rglob("*"):
        os.utime(path, (path.stat().st_size, 1))
    backup.backup(machine.node, machine.upload(), lease=None)
    # Not what restic says: older ones count before they compress, and the archive's gap is zeros.
    assert 0 < _bytes_in(machine.repository) - before < 32768


def test_a_restored_state_adds_next_to_nothing(machine: NodeHome) -> None:
    (machine.home / "large").write_bytes(os.urandom(4 << 20))
    report = backup.backup(machine.node, machine.upload(), lease=None)
    backup.restore(machine.node, machine.upload(snapshot=report["snapshot"]), lease=None)
    assert backup.backup(machine.node, machine.upload(), lease=None)["added"] < 4096


def test_the_stream_is_a_tar_archive_for_anybody(kept: Kept, tmp_path: Path) -> None:
    """Without hermes-node: what somebody does by hand who has the repository and its password alone."""
    command = f"restic --no-cache -q -r {kept.machine.repository} dump latest /state.tar | tar x -C {tmp_path}"
    environment = {"PATH": os.defpath, "RESTIC_PASSWORD": PASSWORD}
    subprocess.run(["/bin/bash", "-ec", f"set -o pipefail; {command}"], env=environment, check=True, timeout=60)
    memory = "memories/USER.md"
    assert (tmp_path / memory).read_bytes() == (kept.machine.home / memory).read_bytes()
    assert json.loads((tmp_path / ".hermes-node/manifest.json").read_text())["state"] == kept.made["state"]


def test_the_payload_is_gone_and_its_secrets_are_in_no_argument_and_no_file(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    real = subprocess.Popen

    def remembered(words: list[str], **options: object) -> object:
        started.append(words)
        return real(words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    path = machine.upload()
    backup.backup(machine.node, path, lease=None)
    assert not path.exists()
    assert len(started) >= 3
    assert PASSWORD not in str(started)
    outside = [p for p in machine.layout.root.rglob("*") if p.is_file() and machine.repository not in p.parents]
    assert [p for p in outside if PASSWORD.encode() in p.read_bytes()] == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"repository": "sftp:somewhere:/else"}, "repository: not of the expected form"),
        ({"repository": "/a/../b"}, "repository: not of the expected form"),
        ({"extra": 1}, "unknown field extra"),
        ({"tags": ["--exec=x"]}, "tags: not of the expected form"),
        ({"version": 2}, "version: this hermes-node knows 1"),
    ],
)
def test_a_payload_that_is_none_is_refused_and_gone(machine: NodeHome, fields: dict[str, object], named: str) -> None:
    path = machine.upload(**fields)
    with pytest.raises(BadRequestError, match=named) as refused:
        backup.backup(machine.node, path, lease=None)
    assert PASSWORD not in str(refused.value)
    assert not path.exists()


def test_another_password_is_refused(kept: Kept) -> None:
    with pytest.raises(RefusedError, match="password"):
        backup.backup(kept.machine.node, kept.machine.upload(password="another"), lease=None)


def test_an_object_store_that_is_gone_is_named(machine: NodeHome) -> None:
    with pytest.raises(NotReadyError, match=r"127\.0\.0\.1:1 does not answer"):
        backup.backup(machine.node, machine.upload(repository="s3:http://127.0.0.1:1/bucket/i-1"), lease=None)


def test_nothing_is_restored_below_a_running_gateway(machine: NodeHome) -> None:
    machine.system.running = True
    with pytest.raises(RefusedError, match="runs"):
        backup.restore(machine.node, machine.upload(snapshot="0" * 64), lease=None)


def test_a_snapshot_that_is_not_there_changes_nothing(kept: Kept) -> None:
    before = _files(kept.machine.home)
    with pytest.raises(RefusedError, match="no snapshot"):
        backup.restore(kept.machine.node, kept.machine.upload(snapshot="0" * 64), lease=None)
    assert _files(kept.machine.home) == before


def test_who_was_outranked_neither_backs_up_nor_restores(machine: NodeHome) -> None:
    newer, older = FencingToken("instance/i-1", 1, 2, "b:2:b"), FencingToken("instance/i-1", 1, 1, "a:1:a")
    fencing.unfence(machine.node, lease=newer)
    for command in (backup.backup, backup.restore):
        with pytest.raises(OutrankedError, match=r"the lease 1\.1 was taken over"):
            command(machine.node, machine.upload(snapshot="0" * 64), lease=older)


def test_a_producer_that_fails_makes_no_snapshot(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream ends early, which a naive pipe would call the end of the file."""
    monkeypatch.setattr(as_user, "WORD", "status")  # ends at once, with an answer that is no report
    with pytest.raises(NotReadyError, match="cut short"):
        backup.backup(kept.machine.node, kept.machine.upload(), lease=None)
    assert [snapshot["id"] for snapshot in _snapshots(kept.machine)] == [kept.made["snapshot"]]


def _snapshots(machine: NodeHome) -> list[dict[str, Any]]:
    words = ["restic", "--no-cache", "-r", str(machine.repository), "snapshots", "--json"]
    done = subprocess.run(words, env={"RESTIC_PASSWORD": PASSWORD}, capture_output=True, check=True, timeout=60)
    listed: list[dict[str, Any]] = json.loads(done.stdout)
    return listed


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("at", range(0, 14, 2))
def test_a_restore_killed_anywhere_in_the_switch_is_finished_by_the_next_command(
    machine: NodeHome, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (machine.layout.root / "copy").open("wb") as out:
        wanted = tar_stream.pack(machine.home, out).state
    _wreck(machine)
    with (machine.layout.root / "copy").open("rb") as source:
        unpack(source, swap.incoming(machine.home))
    swap.make_ready(machine.home)
    machine.layout.restoring.touch(0o600)
    monkeypatch.setattr(Path, "rename", Death.before(at + 1).around(Path.rename))
    with pytest.raises(KilledError):
        swap.switch(machine.home)
    monkeypatch.undo()
    backup.settle(machine.node, agent_of(machine.node))
    assert adapter.observe(agent_of(machine.node).home)[0] == wanted
    assert (machine.home / ".hermes-node/former/since.txt").exists()
    assert not machine.layout.restoring.exists()


def test_a_gateway_that_starts_while_a_copy_is_fetched_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make(tmp_path, runs_processes=False)

    def fetch(*_: object) -> adapter.Copied:
        machine.system.running = True
        return adapter.Copied("s" * 64, 1, 0, 0, {})

    def switch(*_: object) -> None:
        raise AssertionError("under a gateway that runs")

    monkeypatch.setattr(adapter, "fetch", fetch)
    monkeypatch.setattr(adapter, "switch", switch)
    with pytest.raises(RefusedError, match="the gateway runs"):
        backup.restore(machine.node, machine.upload(), lease=None)
    assert not machine.layout.restoring.exists()


def test_a_change_of_release_is_no_restore_that_was_cut_short(tmp_path: Path) -> None:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.restoring.write_bytes(b"")
    assert backup.is_interrupted(machine.node)
    machine.layout.activation.write_bytes(b"{}")
    assert not backup.is_interrupted(machine.node)
