"""What releases are handed out as, taken in by hermes-node: real keys, a real ssh-keygen, a machine in a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.machines.release.index import Documents
from hermesops.wire import errors as node
from hermesops.wire.protocol import VERSION
from tests.support.releases.package_index import AT
from tests.support.releases.signer import Operator
from tests.support.releases.trusting_machine import PYTHON, World

pytestmark = pytest.mark.turns(6)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_machine_takes_in_what_it_was_handed(world: World) -> None:
    answer, code = world.fetch(world.handout())
    assert (code, {file["sha256"] for file in answer["missing"]}) == (
        node.ExitCode.UNFINISHED,
        {blob.sha256 for blob in world.lock.blobs(PYTHON)},
    )
    world.upload(world.lock)
    answer, code = world.fetch(world.handout())
    assert (code, answer["missing"], answer["release"]) == (0, [], world.lock.id)


def test_a_damaged_file_is_asked_for_again(world: World) -> None:
    world.fetch(world.handout())
    world.upload(world.lock, damaged="uv")
    answer, code = world.fetch(world.handout())
    assert (code, [file["name"] for file in answer["missing"]]) == (node.ExitCode.UNFINISHED, ["uv"])


def test_only_what_it_lacks_is_asked_for(world: World) -> None:
    world.fetch(world.handout())
    world.upload(world.lock)
    older = world.build("0.18.2")
    lacking = {file["sha256"] for file in world.fetch(world.handout(older))[0]["missing"]}
    both = {blob.sha256 for blob in older.blobs(PYTHON)} & {blob.sha256 for blob in world.lock.blobs(PYTHON)}
    assert both
    assert lacking == {blob.sha256 for blob in older.blobs(PYTHON)} - both


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("edited", "is not valid for this text"),
        ("unsigned", "by no release signer of this machine"),
        ("by a stranger", "do not follow those that this machine knows"),
        ("for another", "is not valid for this text"),
        ("no signers", "names no signers"),
    ],
)
def test_what_is_not_signed_for_it_is_refused(world: World, harm: str, problem: str) -> None:
    world.fetch(world.handout())
    handout = world.handout()
    match harm:
        case "edited":
            lock = replace(handout.lock, text=handout.lock.text.replace('"config_schema":33', '"config_schema":34'))
            bad = replace(handout, lock=lock)
        case "unsigned":
            bad = replace(handout, lock=replace(handout.lock, signature=""))
        case "by a stranger":
            eve = Operator(world.folder, "eve")
            other = str(world.folder / "eves")
            eve.releases(other).replace_signers(eve.line, sign_again=False)
            eve.releases(other).put(world.lock, who="eve", note="", at=AT)
            bad = eve.releases(other).handout(world.lock.id, PYTHON)
        case "for another":
            bad = replace(handout, lock=replace(handout.lock, text=world.handout(world.build("0.18.2")).lock.text))
        case _:
            bad = replace(handout, signers=())
    with pytest.raises(node.RefusedError, match=problem):
        world.fetch(bad)
    assert world.fetch(handout)[0]["release"] == world.lock.id


def test_a_machine_that_missed_two_rotations_catches_up(world: World) -> None:
    world.fetch(world.handout())
    bob, where = Operator(world.folder, "bob"), world.where
    world.ada.releases(where).replace_signers(world.ada.line + bob.line, sign_again=False)
    old = world.handout()
    bob.releases(where).replace_signers(bob.line, sign_again=True)
    handout = world.handout()
    assert len(handout.signers) == 3
    assert world.fetch(handout)[0]["release"] == world.lock.id
    # What was valid before, from somebody who kept it.
    with pytest.raises(node.RefusedError, match="are number 2, and this machine knows number 3"):
        world.fetch(old)
    assert world.fetch(handout, world.another_machine("new"))[0]["release"] == world.lock.id


def test_what_was_taken_back_stays_taken_back(world: World) -> None:
    before, other = world.handout(), world.build("0.18.2")
    world.fetch(before)
    world.ada.releases(world.where).revoke(world.lock.id, "eats memories")
    world.fetch(world.handout(other))
    with pytest.raises(node.RefusedError, match="are number 0, and this machine knows number 1"):
        world.fetch(before)
    releases = world.ada.releases(world.where)
    releases.set_floor("0.19.0")
    kept = Documents(releases.store, releases.trust, releases.signs)
    by_hand = replace(before, lock=kept.lock(other.id)[1], revocations=kept.revocations()[1])
    with pytest.raises(node.RefusedError, match="below the floor"):
        world.fetch(by_hand)


def test_a_release_for_a_newer_node_is_refused(world: World) -> None:
    lock = replace(world.lock, node=replace(world.lock.node, protocol=VERSION + 1))
    world.ada.releases(world.where).put(lock, who="ada", note="", at=AT)
    with pytest.raises(node.RefusedError, match="protocol"):
        world.fetch(world.handout(lock))
