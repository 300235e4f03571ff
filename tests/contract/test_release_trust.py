"""What releases are handed out as, taken in by hermes-node: real keys, a real ssh-keygen, a machine in a folder."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.node import errors as node
from hermesops.node.fetch import fetch
from hermesops.node.layout import Layout
from hermesops.node.machine import Machine
from hermesops.node.protocol import VERSION
from hermesops.node.release_handout import Handout
from hermesops.node.release_lock import Lock
from hermesops.node.slots import DiskSlots
from hermesops.release.documents import Documents
from tests.support.node_home import FakeSystem
from tests.support.release_operator import Operator
from tests.support.release_world import AT, Index, builder_of, order

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class World:
    """An operator with a store, and a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, str(folder / "releases")
        self.ada = Operator(folder, "ada")
        self.ada.releases(self.where).replace_signers(self.ada.line, sign_again=False)
        self.lock = self.build("0.19.0")
        self.machine = self.another_machine("machine")

    def build(self, agent: str) -> Lock:
        builder = builder_of(self.ada.releases(self.where), Index(), self.folder)
        return builder.build(order(agent, pythons=(PYTHON,)), who="ada", note="", at=AT).lock

    def another_machine(self, name: str) -> Machine:
        layout = Layout(self.folder / name)
        for folder in ("etc/hermes-node", "run/hermes-node", "opt/hermes/node"):
            (layout.root / folder).mkdir(parents=True)
        return Machine(layout, system=FakeSystem(), slots=DiskSlots(layout))

    def handout(self, lock: Lock | None = None) -> Handout:
        return self.ada.releases(self.where).handout((lock or self.lock).id, PYTHON)

    def upload(self, lock: Lock, *, damaged: str = "") -> None:
        incoming = self.machine.layout.blobs / "incoming"
        for blob in lock.blobs(PYTHON):
            content = self.ada.releases(self.where).blob(blob)
            (incoming / blob.sha256).write_bytes(content[:-1] if blob.name == damaged else content)

    def fetch(self, handout: Handout, machine: Machine | None = None) -> tuple[dict[str, Any], int]:
        on = machine or self.machine
        path = on.layout.root / "run/hermes-node/handout.json"
        path.touch(0o600)
        path.write_bytes(handout.to_json())
        return fetch(on, path, lease=None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_machine_takes_in_what_it_was_handed(world: World) -> None:
    answer, code = world.fetch(world.handout())
    assert (code, {one["sha256"] for one in answer["missing"]}) == (
        node.UNFINISHED,
        {blob.sha256 for blob in world.lock.blobs(PYTHON)},
    )
    world.upload(world.lock)
    answer, code = world.fetch(world.handout())
    assert (code, answer["missing"], answer["release"]) == (0, [], world.lock.id)


def test_a_damaged_file_is_asked_for_again(world: World) -> None:
    world.fetch(world.handout())
    world.upload(world.lock, damaged="uv")
    answer, code = world.fetch(world.handout())
    assert (code, [one["name"] for one in answer["missing"]]) == (node.UNFINISHED, ["uv"])


def test_only_what_it_lacks_is_asked_for(world: World) -> None:
    world.fetch(world.handout())
    world.upload(world.lock)
    older = world.build("0.18.2")
    lacking = {one["sha256"] for one in world.fetch(world.handout(older))[0]["missing"]}
    both = {blob.sha256 for blob in older.blobs(PYTHON)} & {blob.sha256 for blob in world.lock.blobs(PYTHON)}
    assert both
    assert lacking == {blob.sha256 for blob in older.blobs(PYTHON)} - both


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("edited", "what was signed is something else"),
        ("unsigned", "by nobody whom this machine's release signers allow"),
        ("by a stranger", "do not follow those that this machine knows"),
        ("for another", "what was signed is something else"),
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
    with pytest.raises(node.RefusedError, match="do not follow those that this machine knows"):
        world.fetch(old)
    assert world.fetch(handout, world.another_machine("new"))[0]["release"] == world.lock.id


def test_what_was_taken_back_stays_taken_back(world: World) -> None:
    before, other = world.handout(), world.build("0.18.2")
    world.fetch(before)
    world.ada.releases(world.where).revoke(world.lock.id, "eats memories")
    world.fetch(world.handout(other))
    with pytest.raises(node.RefusedError, match="eats memories"):
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
