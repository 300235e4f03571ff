"""The server's memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ImageRow, MachineRow, ModelRequestRow, TokenRow, Wanted

MACHINE = MachineRow(
    id="a", number=1, slug="m-a", name="edge", server_type="starter", region="hel1", image_id=None, created_at="t",
    private_key="canary-key", public_key="p", daemon_token="canary-daemon", machine_token="canary-machine",
    env='{"K": "canary-env"}', init_script="canary-script",
)  # fmt: skip


def test_rows_come_back_as_they_were_after_a_crash(tmp_path: Path) -> None:
    image, token = ImageRow("i", "base", "a", 80, "t", "t"), TokenRow("t", "a", "label", "hash", "later")
    store = Store(tmp_path / "world.db")
    for row in (MACHINE, image, token):
        store.add(row)
    store.update(MachineRow, "a", made=True, wanted=Wanted.STOPPED)
    again = Store(tmp_path / "world.db")  # the first was never closed
    assert again.get(MachineRow, "a") == replace(MACHINE, made=True, wanted=Wanted.STOPPED)
    assert (again.get(ImageRow, "i"), again.find(TokenRow, sha256="hash")) == (image, [token])


def test_a_number_is_free_again_only_when_nothing_is_left_of_its_machine(tmp_path: Path) -> None:
    store = Store(tmp_path / "world.db")
    for number, name in enumerate("abc", 1):
        store.add(replace(MACHINE, id=name, number=number))
    store.update(MachineRow, "b", wanted=Wanted.DELETED)
    assert [row.id for row in store.machines()] == ["a", "c"]
    assert store.free_number() == 4
    store.remove(MachineRow, "b")
    assert store.free_number() == 2


def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(BrokenInvariantError, match=r"world\.db") as caught:
        Store(path)
    assert "--purge" in str(caught.value.hint)


def test_a_file_of_a_newer_shape_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "world.db")
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(BrokenInvariantError, match="newer"):
        Store(tmp_path / "world.db")


def test_only_the_newest_requests_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "world.db")
    for number in range(10):
        store.add(ModelRequestRow(None, "i", f"m{number}", "t", 200))
    store.keep_newest(ModelRequestRow, 3)
    assert [row.model for row in store.find(ModelRequestRow)] == ["m7", "m8", "m9"]


def test_tokens_go_when_they_expire(tmp_path: Path) -> None:
    store = Store(tmp_path / "world.db")
    for timestamp in ("2026-01-01", "2026-01-02", "2026-01-03"):
        store.add(TokenRow(timestamp, "a", "", timestamp, timestamp))
    store.remove_expired_tokens("2026-01-02")
    assert [row.id for row in store.find(TokenRow)] == ["2026-01-03"]


def test_a_machines_secrets_do_not_show_when_it_is_printed() -> None:
    assert "canary" not in repr(MACHINE)


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    Store(tmp_path / "world.db").close()
    assert (tmp_path / "world.db").stat().st_mode & 0o777 == 0o600
