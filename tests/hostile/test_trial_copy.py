"""The agent puts something else in the place of the copy of its state while a trial of a release begins."""

import multiprocessing
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.programs.node.release import sandbox
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import Access, is_mounted
from hermesops.wire.errors import NotReadyError
from tests.support.suite.prerequisites import require

_AGENT = Access(0o600, 65533, 65533)
_TRIES = 150
_RACE_S = 60.0
"""Seconds for which a race goes on that one side has always won: a busy computer lets one run for long."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentHome]:
    """A home of another user's, with a copy in it; what it may not see is below the same folder."""
    require(os.geteuid() == 0, "root")
    path = tmp_path / "home"
    (path / ".hermes-node/trial").mkdir(parents=True)
    (path / ".hermes-node/trial/state.db").write_text("copied")
    (tmp_path / "closed/below").mkdir(parents=True)
    (tmp_path / "closed/below/secret").write_text("of-root")
    for each in (path, *path.rglob("*")):
        os.chown(each, _AGENT.uid, _AGENT.gid)
    monkeypatch.setattr(sandbox, "TRIAL_STATE", tmp_path / "run/trial-state")  # as ``_place`` has it
    yield AgentHome(path, _AGENT, tmp_path / "program")
    sandbox.unmount_copy()


def _place(home: AgentHome) -> Path:
    return home.path.parent / "run/trial-state"


def _mounted(home: AgentHome) -> set[str]:
    return {entry.name for entry in _place(home).iterdir()}


def test_the_copy_is_mounted_and_gone_afterwards(home: AgentHome) -> None:
    sandbox.mount_copy(home)
    assert _mounted(home) == {"state.db"}
    assert stat.S_IMODE(_place(home).parent.stat().st_mode) & 0o022 == 0
    sandbox.unmount_copy()
    assert not is_mounted(_place(home))


@pytest.mark.parametrize("target", ["/proc", "/etc", "/dev", "../../closed/below"])
@pytest.mark.parametrize("name", ["trial", ""])
def test_a_link_in_its_place_is_not_followed(home: AgentHome, target: str, name: str) -> None:
    place = home.path / ".hermes-node" / name
    shutil.rmtree(place)
    place.symlink_to(target if name else f"../{target}")
    with pytest.raises(NotReadyError, match=r"was replaced by something else: .*(Not a directory|Too many levels)"):
        sandbox.mount_copy(home)
    assert not is_mounted(_place(home))


def test_a_folder_of_somebody_elses_is_not_taken(home: AgentHome) -> None:
    os.chown(home.path / ".hermes-node/trial", 0, 0)
    with pytest.raises(NotReadyError, match="was replaced by something else"):
        sandbox.mount_copy(home)
    assert not is_mounted(_place(home))


def test_a_pipe_in_its_place_keeps_nobody_waiting(home: AgentHome) -> None:
    shutil.rmtree(home.path / ".hermes-node/trial")
    os.mkfifo(home.path / ".hermes-node/trial")
    with pytest.raises(NotReadyError, match="was replaced by something else"):
        sandbox.mount_copy(home)


def test_whoever_swaps_without_end_gets_nothing_mounted_but_the_copy(home: AgentHome) -> None:
    swaps = multiprocessing.get_context("fork").Process(target=_swap_for_ever, args=(home.path,), daemon=True)
    swaps.start()
    taken, refused, tries = 0, 0, 0
    ends = time.monotonic() + _RACE_S
    try:
        while tries < _TRIES or (min(taken, refused) == 0 and time.monotonic() < ends):
            tries += 1
            try:
                sandbox.mount_copy(home)
            except NotReadyError:
                refused += 1
                continue
            taken += 1
            assert _mounted(home) == {"state.db"}
            sandbox.unmount_copy()
    finally:
        swaps.kill()
        swaps.join()
    assert min(taken, refused) > 0, f"no race was run: {taken} taken, {refused} refused"


def _swap_for_ever(home: Path) -> None:
    """As the agent's user: the copy away, a link to something closed in its place, and back."""
    os.chdir(home / ".hermes-node")  # what is above is the test's own
    os.setresgid(_AGENT.gid, _AGENT.gid, _AGENT.gid)
    os.setresuid(_AGENT.uid, _AGENT.uid, _AGENT.uid)
    trial, targets = Path("trial"), (home.parent / "closed/below", "/proc", "/etc")
    for number in range(1 << 30):
        trial.rename("away")
        trial.symlink_to(targets[number % len(targets)])
        trial.unlink()
        Path("away").rename(trial)
