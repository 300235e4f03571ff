"""What a machine takes in of a release, and whom it believes."""

import dataclasses
import io
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermesops.node.activate import Options, activate
from hermesops.node.errors import BadRequestError, RefusedError
from hermesops.node.fetch import fetch
from hermesops.node.protocol import VERSION
from hermesops.node.release_handout import Signed
from hermesops.node.revocations import Revocations
from tests.support.release_home import OLD, KilledError, ReleaseHome, content, lock_of, make

LOCK = lock_of("0.20.0")


@pytest.fixture
def home(tmp_path: Path) -> ReleaseHome:
    return make(tmp_path)


def signed(text: str, who: str = "ada") -> Signed:
    return Signed(text, f"{who}:{len(text.encode())}")


def test_it_says_what_is_missing_until_all_of_it_was_brought(home: ReleaseHome) -> None:
    answer, code = fetch(home.node, home.offer(LOCK), lease=None)
    blobs = LOCK.blobs("3.11")
    assert code == 7
    assert {blob["sha256"] for blob in answer["missing"]} == {blob.sha256 for blob in blobs}
    assert answer["bytes"] == sum(blob.size for blob in blobs)
    home.upload(LOCK)
    answer, code = fetch(home.node, home.offer(LOCK), lease=None)
    assert (code, answer["missing"], answer["have"]) == (0, [], len(blobs))


def test_of_the_next_release_only_what_differs_travels(home: ReleaseHome) -> None:
    home.upload(LOCK)
    fetch(home.node, home.offer(LOCK), lease=None)
    answer, _ = fetch(home.node, home.offer(lock_of("0.20.1")), lease=None)
    assert [blob["name"] for blob in answer["missing"]] == ["hermes_agent-0.20.1-py3-none-any.whl"]


def test_a_file_that_is_cut_short_or_another_one_is_thrown_away(home: ReleaseHome) -> None:
    home.upload(LOCK)
    wheel = next(blob for blob in LOCK.blobs("3.11") if blob.name.endswith(".whl"))
    for data in (content(wheel.name)[:-1], b"x" * wheel.size, b""):
        (home.layout.blobs / "incoming" / wheel.sha256).write_bytes(data)
        answer, code = fetch(home.node, home.offer(LOCK), lease=None)
        assert (code, [blob["name"] for blob in answer["missing"]]) == (7, [wheel.name])
        assert not (home.layout.blobs / "incoming" / wheel.sha256).exists()


def test_an_edited_lock_is_refused(home: ReleaseHome) -> None:
    text = LOCK.to_json().decode()
    edited = dataclasses.replace(LOCK, config_schema=330).to_json().decode()
    with pytest.raises(RefusedError, match="does not hold"):
        fetch(home.node, home.offer(LOCK, said=Signed(edited, f"ada:{len(text)}")), lease=None)
    with pytest.raises(BadRequestError, match="not spelled"):
        fetch(home.node, home.offer(LOCK, said=signed(text + "\n")), lease=None)


def test_from_the_first_signers_on_others_count_only_when_those_have_signed_them(home: ReleaseHome) -> None:
    home.upload(LOCK)
    text = LOCK.to_json().decode()
    first = signed("ada")
    fetch(home.node, home.offer(LOCK), lease=None)

    def offer(lock: str, *signers: Signed) -> tuple[dict[str, Any], int]:
        return fetch(home.node, home.offer(LOCK, said=signed(text, lock), signers=signers), lease=None)

    with pytest.raises(RefusedError, match="do not follow"):
        offer("eve", signed("eve", "eve"))
    with pytest.raises(RefusedError, match="does not hold"):
        offer("eve", first, signed("eve", "eve"))
    assert offer("bob", first, signed("ada,bob"), signed("bob", "bob"))[1] == 0
    with pytest.raises(RefusedError, match="does not hold"):
        offer("ada", first, signed("ada,bob"), signed("bob", "bob"))
    with pytest.raises(RefusedError, match="do not follow"):
        offer("ada", first)


def test_what_was_revoked_stays_so_whatever_older_word_comes(home: ReleaseHome) -> None:
    home.upload(LOCK)
    revoked = Revocations(3, {LOCK.id: "it forgets"}).to_json().decode()
    with pytest.raises(RefusedError, match="was revoked: it forgets"):
        fetch(home.node, home.offer(LOCK, revocations=signed(revoked)), lease=None)
    older = Revocations(2, {}).to_json().decode()
    for later in (signed(older), None):
        with pytest.raises(RefusedError, match="was revoked"):
            fetch(home.node, home.offer(LOCK, revocations=later), lease=None)
    lifted = Revocations(4, {}).to_json().decode()
    assert fetch(home.node, home.offer(LOCK, revocations=signed(lifted)), lease=None)[1] == 0
    forged = Revocations(5, {LOCK.id: "no"}).to_json().decode()
    with pytest.raises(RefusedError, match="does not hold"):
        fetch(home.node, home.offer(LOCK, revocations=signed(forged, "eve")), lease=None)


def test_one_that_was_fetched_and_then_revoked_is_not_run(home: ReleaseHome) -> None:
    home.upload(LOCK)
    fetch(home.node, home.offer(LOCK), lease=None)
    other = lock_of("0.20.1")
    revoked = Revocations(1, {LOCK.id: "it forgets"}).to_json().decode()
    fetch(home.node, home.offer(other, revocations=signed(revoked)), lease=None)
    with pytest.raises(RefusedError, match="was revoked"):
        activate(home.node, LOCK.id, Options(), lease=None, tell=lambda _: None)


def test_one_below_the_floor_or_for_a_newer_node_is_refused(home: ReleaseHome) -> None:
    floor = Revocations(1, {}, floor="0.20.1").to_json().decode()
    with pytest.raises(RefusedError, match="below the floor"):
        fetch(home.node, home.offer(LOCK, revocations=signed(floor)), lease=None)
    newer = lock_of("0.21.0", protocol=VERSION + 1)
    with pytest.raises(RefusedError, match=f"needs hermes-node protocol {VERSION + 1}"):
        fetch(home.node, home.offer(newer), lease=None)


def test_one_for_another_python_is_refused(home: ReleaseHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home.slots, "python", lambda: "3.14")
    with pytest.raises(BadRequestError, match=r"not for 3\.14"):
        fetch(home.node, home.offer(LOCK), lease=None)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda data: data[:-20], "handout: not JSON"),
        (lambda _: b"{}", "handout: lacks format"),
        (lambda _: b"", "handout: not JSON"),
        (lambda data: data + b"x", "handout: not JSON"),
    ],
)
def test_a_handout_that_is_none_is_refused_and_gone(
    home: ReleaseHome, spoil: Callable[[bytes], bytes], named: str
) -> None:
    path = home.offer(LOCK)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(BadRequestError, match=named):
        fetch(home.node, path, lease=None)
    assert not path.exists()


def test_one_that_was_not_fetched_is_not_run(home: ReleaseHome) -> None:
    with pytest.raises(RefusedError, match="release fetch comes first"):
        activate(home.node, LOCK.id, Options(), lease=None, tell=lambda _: None)


def test_a_download_that_does_not_end_is_left(home: ReleaseHome, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            read.append(size or 0)
            return b"x" * read[-1] if len(read) < 10 else b""

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Endless())
    blob = dataclasses.replace(LOCK.uv, size=100)
    assert not home.slots.download(blob, "https://store.test/uv")
    assert sum(read) <= 101
    assert not list(home.layout.blobs.rglob(blob.sha256))


def test_half_of_a_slot_that_is_being_removed_is_no_slot(home: ReleaseHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: Path) -> None:
        raise KilledError

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KilledError):
        home.slots.remove(OLD)
    assert home.slots.names() == []
