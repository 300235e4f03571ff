from pathlib import Path

import pytest

from hermesops.agents.backup.store.repository import Bucket, Repository
from hermesops.agents.backup.store.simulated import SimulatedStore

NAME = "recovery/ada.json"


@pytest.fixture
def store(tmp_path: Path) -> SimulatedStore:
    store = SimulatedStore(tmp_path, "backups")
    store.prepare()
    store.put(NAME, b"{}")
    return store


def test_an_object_that_is_removed_while_they_are_listed_is_none(
    store: SimulatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("recovery/bob.json", b"{}")
    stat = Path.stat

    def removed_before(path: Path, *, follow_symlinks: bool = True) -> object:
        status = stat(path, follow_symlinks=follow_symlinks)
        if path.name == "bob.json":
            path.unlink(missing_ok=True)  # the next look at it fails
        return status

    monkeypatch.setattr(Path, "stat", removed_before)
    assert store.names("recovery/") == [NAME]


def test_an_object_or_a_key_that_is_being_written_is_none(store: SimulatedStore, tmp_path: Path) -> None:
    kept = store.issue("ada", Repository(Bucket("backups", "us-east-1"), "ada")).access_key
    for finished in (next(tmp_path.rglob("ada.json")), next(tmp_path.rglob(kept))):
        finished.with_name(f".{finished.name}.0a1b2c").write_text("half")
    assert store.names("") == [NAME]
    assert store.keys_of("ada") == {kept}
