"""A few of the cycles that ``tests/soak/test_slot_cycles.py`` goes through."""

from pathlib import Path

from tests.support.releases.slot_cycles import cycle


def test_what_was_accepted_is_there_once_whichever_release_it_was_said_to(tmp_path: Path) -> None:
    done = cycle(tmp_path / "machine", 4)
    assert done.problems == []
    assert done.accepted > 0
    assert (done.lost, done.doubled) == (0, 0)
