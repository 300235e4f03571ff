"""Which processes are provably gone: the one rule by which leases and locks of stacks are taken over."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hermesops.base import processes
from hermesops.base.processes import Place
from hermesops.errors import UnavailableError
from hermesops.infra.engine.embedded.state import lock
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.lock import held, outwait
from hermesops.model.stack import StackRef
from hermesops.store.operations.leases.holder import is_gone

REF = StackRef("fleet", "cell1")
HERE = Place("image-of-all", "this-boot", "pid:[1]")
NOBODY = 2**22 - 7
"""A process id that is hardly ever in use; if it is, the process did not start at tick 1."""

ELSEWHERE = [
    pytest.param(HERE, replace(HERE, host="another", boot="another"), id="another computer"),
    pytest.param(HERE, replace(HERE, host="another"), id="another machine id"),
    pytest.param(HERE, replace(HERE, boot="another"), id="a clone of our image, or our earlier boot"),
    pytest.param(replace(HERE, host=""), replace(HERE, host="", boot="another"), id="without a machine id"),
    pytest.param(HERE, replace(HERE, namespace="pid:[2]"), id="another container"),
    pytest.param(replace(HERE, namespace=""), replace(HERE, namespace=""), id="unknown namespaces"),
    pytest.param(replace(HERE, boot=""), replace(HERE, boot=""), id="unknown boots"),
]


def live_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "here", lambda: place)


def write_lock(
    backend: FileBackend, place: Place, *, pid: object = NOBODY, started: object = "1", **more: object
) -> None:
    document = {
        "pid": pid,
        "username": "u",
        "hostname": "h",
        "timestamp": "2026-01-01T00:00:00Z",
        "hermesops": {**asdict(place), "started": started, **more},
    }
    backend.storage.write(f"{backend.lock_folder(REF).name}/theirs.json", json.dumps(document).encode())


def holder_at(place: Place) -> str:
    return f"h:{NOBODY}:{place.fingerprint}.1.ab"


@pytest.mark.parametrize(("ours", "theirs"), ELSEWHERE)
def test_nothing_is_known_of_a_process_elsewhere(
    ours: Place, theirs: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_at(ours, monkeypatch)
    backend = FileBackend(tmp_path)
    write_lock(backend, theirs)
    with (
        pytest.raises(UnavailableError, match="stack cell1 is locked by 1 other"),
        held(backend.lock_folder(REF), stack="cell1", report=pytest.fail),
    ):
        pytest.fail("two hold the lock")
    assert not is_gone(holder_at(theirs))


@pytest.mark.parametrize(("ours", "theirs"), ELSEWHERE)
async def test_a_later_lease_ends_the_lock_of_a_process_elsewhere(
    ours: Place, theirs: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_at(ours, monkeypatch)
    monkeypatch.setattr(lock, "GRACE_S", 0)
    backend, reports = FileBackend(tmp_path), list[str]()
    write_lock(backend, theirs, token=[1, 5])
    await outwait(backend.lock_folder(REF), (1, 6), report=reports.append)
    assert backend.lock_folder(REF).files(".json") == []
    assert "lost the lease" in reports[0]


def test_a_process_that_ended_here_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_at(HERE, monkeypatch)
    backend, reports = FileBackend(tmp_path), list[str]()
    write_lock(backend, HERE)
    with held(backend.lock_folder(REF), stack="cell1", report=reports.append):
        assert len(backend.lock_folder(REF).files(".json")) == 1
    assert reports == [f"removed the lock of process {NOBODY}, which has ended without releasing it"]
    assert is_gone(holder_at(HERE))


@pytest.mark.parametrize("start", ["", None, 7])
def test_a_process_whose_start_is_unknown_holds_its_lock(
    start: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_at(HERE, monkeypatch)
    backend = FileBackend(tmp_path)
    write_lock(backend, HERE, pid=os.getpid(), started=start)
    with (
        pytest.raises(UnavailableError, match="cell1"),
        held(backend.lock_folder(REF), stack="cell1", report=pytest.fail),
    ):
        pytest.fail("two hold the lock")


def test_a_lock_without_a_number_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_at(HERE, monkeypatch)
    backend = FileBackend(tmp_path)
    write_lock(backend, HERE, pid="none")
    with (
        pytest.raises(UnavailableError, match="cell1"),
        held(backend.lock_folder(REF), stack="cell1", report=pytest.fail),
    ):
        pytest.fail("two hold the lock")
