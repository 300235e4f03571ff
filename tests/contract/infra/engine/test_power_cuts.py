"""The power fails at every moment of writing a state: what was there before or what is new, and never less."""

from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.infra.engine.embedded.state import storage as folder_storage
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.model.stack import StackRef
from tests.support.crash.power_cut import RecordingOs
from tests.support.engine.stack_states import state_of

REF = StackRef("fleet", "cell1")
STEPS = 4


def work(folder: Path, recorder: RecordingOs) -> list[int]:
    """Write four states, each recorded as finished; the moments when each was done."""
    backend, done = FileBackend(folder), []
    for number in range(1, STEPS + 1):
        backend.copy_before(REF)
        backend.write(REF, state_of(REF, number))
        done.append(len(recorder.timestamps) - 1)
        backend.record(REF, {"kind": "update", "result": "succeeded"})
    return done


def survivors(folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, forgetful: str) -> list[tuple[int, int]]:
    """For every moment and every luck: how many states were done, and which one is read."""
    recorder = RecordingOs(folder, forgetful=forgetful)
    monkeypatch.setattr(folder_storage, "os", recorder)
    folder.mkdir()
    done = work(folder, recorder)
    monkeypatch.undo()
    read = []
    for timestamp in range(len(recorder.timestamps)):
        for left in recorder.aftermaths(timestamp, scratch):
            backend = FileBackend(left)
            state = backend.read(REF)
            present = len(state["resources"]) if state else 0
            finished = sum(timestamp >= at for at in done)
            read.append((finished, present))
            for name in backend.backups(REF).files(".json"):
                assert backend.parsed(REF, name, backend.storage.read(name) or b"")["resources"]
    if not forgetful:
        left = next(recorder.aftermaths(len(recorder.timestamps) - 1, scratch / "end"))
        assert len(FileBackend(left).backups(REF).files(".json")) == STEPS
    return read


def test_after_any_cut_the_state_is_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = survivors(tmp_path / "state", tmp_path / "left", monkeypatch, "")
    assert len(read) > 100
    assert {present - finished for finished, present in read} == {0, 1}


@pytest.mark.parametrize(
    ("forgetful", "expected"), [("file", "the state is damaged"), ("folder", "assert -[0-9]+ >= 0")]
)
def test_this_test_notices_a_sync_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetful: str, expected: str
) -> None:
    def check() -> None:
        read = survivors(tmp_path / "state", tmp_path / "left", monkeypatch, forgetful)
        assert min(present - finished for finished, present in read) >= 0

    with pytest.raises((RefusedError, AssertionError), match=expected):  # damaged, or older than what was finished
        check()
