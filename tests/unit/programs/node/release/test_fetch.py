"""What a machine takes in of a release, and whom it believes."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.release.activate import Options, activate
from hermesops.programs.node.release.fetch import fetch
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import Kind
from hermesops.wire.errors import BadRequestError, RefusedError
from hermesops.wire.protocol import VERSION
from tests.support.crash.death import KilledError, raise_killed
from tests.support.releases.machine_home import OLD, ReleaseHome, content, lock_of, make, signed_by, signers_by

LOCK = lock_of("0.20.0")


@pytest.fixture
def home(tmp_path: Path) -> ReleaseHome:
    return make(tmp_path)


def signed(text: str, who: str = "ada", kind: Kind = Kind.LOCK) -> Signed:
    return signed_by(who, text, kind)


def taken_back(text: str, who: str = "ada") -> Signed:
    return signed_by(who, text, Kind.REVOCATIONS)


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
        fetch(home.node, home.offer(LOCK, statement=Signed(edited, signed(text).signature)), lease=None)
    with pytest.raises(BadRequestError, match="not canonical"):
        fetch(home.node, home.offer(LOCK, statement=signed(text + "\n")), lease=None)


def test_from_the_first_signers_on_others_count_only_when_those_have_signed_them(home: ReleaseHome) -> None:
    home.upload(LOCK)
    text = LOCK.to_json().decode()
    first, both, alone = (
        signers_by("ada", 1, "ada"),
        signers_by("ada", 2, "ada", "bob"),
        signers_by("bob", 3, "bob"),
    )
    fetch(home.node, home.offer(LOCK), lease=None)

    def offer(lock: str, *signers: Signed) -> tuple[dict[str, Any], int]:
        return fetch(home.node, home.offer(LOCK, statement=signed(text, lock), signers=signers), lease=None)

    with pytest.raises(RefusedError, match="do not follow"):
        offer("eve", signers_by("eve", 1, "eve"))
    with pytest.raises(RefusedError, match="does not hold"):
        offer("eve", first, signers_by("eve", 2, "eve"))
    assert offer("bob", first, both, alone)[1] == 0
    with pytest.raises(RefusedError, match="does not hold"):
        offer("ada", first, both, alone)
    with pytest.raises(RefusedError, match="signers are number 1, and this machine knows number 3"):
        offer("ada", first)
    with pytest.raises(RefusedError, match="names no signers"):
        offer("bob")


def test_signers_that_come_back_are_others_than_those_before(home: ReleaseHome) -> None:
    home.upload(LOCK)
    text, first, both = LOCK.to_json().decode(), signers_by("ada", 1, "ada"), signers_by("ada", 2, "ada", "bob")
    chain = (first, both, signers_by("bob", 3, "ada"))
    assert fetch(home.node, home.offer(LOCK, statement=signed(text), signers=chain), lease=None)[1] == 0
    with pytest.raises(RefusedError, match="number 2, and this machine knows number 3"):
        fetch(home.node, home.offer(LOCK, statement=signed(text), signers=(first, both)), lease=None)


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (1, 1), (2, 1)])
def test_signers_out_of_their_order_are_no_handout(home: ReleaseHome, numbers: tuple[int, ...]) -> None:
    chain = tuple(signers_by("ada", number, "ada") for number in numbers)
    with pytest.raises(BadRequestError, match="in place of number"):
        fetch(home.node, home.offer(LOCK, signers=chain), lease=None)


def test_nothing_is_believed_of_a_handout_that_does_not_hold_whole(home: ReleaseHome) -> None:
    text, chain = LOCK.to_json().decode(), (signers_by("ada", 1, "ada"), signers_by("ada", 2, "bob"))
    held = taken_back(Revocations(3, {}).to_json().decode(), "bob")
    for lock, revocations in (("eve", held), ("bob", taken_back(held.text, "eve"))):
        with pytest.raises(RefusedError, match="does not hold"):
            fetch(
                home.node,
                home.offer(LOCK, statement=signed(text, lock), signers=chain, revocations=revocations),
                lease=None,
            )
        assert not home.layout.signers.exists()
        assert not home.layout.revocations.exists()
    home.upload(LOCK)
    assert fetch(home.node, home.offer(LOCK), lease=None)[1] == 0


def test_what_was_revoked_stays_so_whatever_older_word_comes(home: ReleaseHome) -> None:
    home.upload(LOCK)
    revoked = Revocations(3, {LOCK.id: "it forgets"}).to_json().decode()
    with pytest.raises(RefusedError, match="was revoked: it forgets"):
        fetch(home.node, home.offer(LOCK, revocations=taken_back(revoked)), lease=None)
    older, other = (Revocations(number, {}).to_json().decode() for number in (2, 3))
    for later, number in ((taken_back(older), 2), (None, 0)):
        with pytest.raises(RefusedError, match=f"are number {number}, and this machine knows number 3.*restore"):
            fetch(home.node, home.offer(LOCK, revocations=later), lease=None)
    with pytest.raises(RefusedError, match="with the same number 3"):
        fetch(home.node, home.offer(LOCK, revocations=taken_back(other)), lease=None)
    lifted = Revocations(4, {}).to_json().decode()
    assert fetch(home.node, home.offer(LOCK, revocations=taken_back(lifted)), lease=None)[1] == 0
    forged = Revocations(5, {LOCK.id: "no"}).to_json().decode()
    with pytest.raises(RefusedError, match="does not hold"):
        fetch(home.node, home.offer(LOCK, revocations=taken_back(forged, "eve")), lease=None)


def test_one_that_was_fetched_and_then_revoked_is_not_run(home: ReleaseHome) -> None:
    home.upload(LOCK)
    fetch(home.node, home.offer(LOCK), lease=None)
    other = lock_of("0.20.1")
    revoked = Revocations(1, {LOCK.id: "it forgets"}).to_json().decode()
    fetch(home.node, home.offer(other, revocations=taken_back(revoked)), lease=None)
    with pytest.raises(RefusedError, match="was revoked"):
        activate(home.node, LOCK.id, Options(), lease=None, progress=lambda _: None)


def test_one_below_the_floor_or_for_a_newer_node_is_refused(home: ReleaseHome) -> None:
    floor = Revocations(1, {}, floor="0.20.1").to_json().decode()
    with pytest.raises(RefusedError, match="below the floor"):
        fetch(home.node, home.offer(LOCK, revocations=taken_back(floor)), lease=None)
    newer = lock_of("0.21.0", protocol=VERSION + 1)
    with pytest.raises(RefusedError, match=f"needs hermes-node protocol {VERSION + 1}"):
        fetch(home.node, home.offer(newer, revocations=taken_back(floor)), lease=None)


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
    with pytest.raises(RefusedError, match="run hermes-node release fetch first"):
        activate(home.node, LOCK.id, Options(), lease=None, progress=lambda _: None)


def test_half_of_a_slot_that_is_being_removed_is_no_slot(home: ReleaseHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", raise_killed)
    with pytest.raises(KilledError):
        home.slots.remove(OLD)
    assert home.slots.names() == []
