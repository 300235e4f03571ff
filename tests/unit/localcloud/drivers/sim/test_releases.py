"""A simulated machine goes to releases and back by the hermes-node of real ones; each fault shows in its place."""

import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.localcloud.drivers.sim.agent.release_faults import ReleaseFault, release_faults_of
from hermesops.localcloud.drivers.sim.disk import PORT
from hermesops.localcloud.drivers.sim.disk import RELEASE as BASE
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Entry, Record, Store
from hermesops.wire.documents.handout import Handout, Signed
from hermesops.wire.documents.lock import Lock
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.protocol import Identity, Payload, Secrets
from tests.support.releases.signed import SignedReleases

HANDOUT = "/run/hermes-node/handout.json"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> SignedReleases:
    return SignedReleases(tmp_path_factory.mktemp("keys"))


@dataclass
class Box:
    """One machine, whose clock a test can turn.

    Attributes:
        turned_s: How far.
    """

    store: Store
    record: Record
    turned_s: float = 0.0

    @property
    def guest(self) -> Guest:
        """It, for one request, as its driver has it."""
        guest = self._guest()
        if guest.is_overdue:
            guest.settle()
            guest = self._guest()
        return guest

    def _guest(self) -> Guest:
        guest = Guest(self.store, self.record)
        guest.slept_s = self.turned_s
        return guest

    def node(self, *words: str, code: int = 0) -> dict[str, Any]:
        guest = self.guest
        ended, out, err = guest.node(words)
        self.turned_s = guest.slept_s
        assert ended == code, (ended, out, err)
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    def upload(self, path: str, data: bytes) -> None:
        self.guest.disk.put(path, Entry(stat.S_IFREG | 0o600, 0, 0, data))

    def fetch(self, handout: Handout, *, code: int = 0) -> dict[str, Any]:
        self.upload(HANDOUT, handout.to_json())
        return self.node("release", "fetch", HANDOUT, code=code)

    def deploy(self, releases: SignedReleases, lock: Lock) -> None:
        """Have all of a release be on the machine."""
        handout = releases.handout(lock)
        self.upload(HANDOUT, handout.to_json())
        for blob in lock.all_blobs():
            self.upload(f"/opt/hermes/blobs/incoming/{blob.sha256}", releases.content[blob.sha256])
        self.fetch(handout)

    def activate(self, lock: Lock, *words: str, code: int = 0) -> dict[str, Any]:
        return self.node("release", "activate", lock.id, "--drain", "5", *words, code=code)

    def reboot(self) -> None:
        self.record = replace(self.record, boots=self.record.boots + 1)
        self.store.put(self.record)
        self._guest().boot()

    @property
    def current(self) -> str:
        return str(self.node("release", "show")["current"])

    def is_well(self) -> bool:
        """Whether somebody who comes by the proxy gets an answer, and a turn is taken."""
        probed = self.node("probe", "--turn", "20")
        return self.guest.gateway.admits(PORT) and probed["gateway"] == "ok" and probed["turn"]["ok"]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    store = Store(tmp_path / "world.db")
    record = Record("m-1", 1, "edge", "token", None, 1, 1024, 10, is_on=True, boots=1)
    store.put(record)
    box = Box(store, record)
    keys = Secrets("k" * 64, "hm1.i-1.1." + "a" * 40)
    box.upload("/run/p.json", Payload(Identity("i-1", "u-1", "light", "c1", 1), keys, "http://10.0.0.1/v1").to_json())
    box.node("personalise", "/run/p.json", "--wait", "5")
    assert box.is_well()
    return box


def test_what_is_missing_is_named_and_travels_once(box: Box, releases: SignedReleases) -> None:
    lock = releases.lock()
    report = box.fetch(releases.handout(lock), code=7)
    assert {blob["sha256"] for blob in report["missing"]} == {blob.sha256 for blob in lock.all_blobs()}
    unit = lock.unit.sha256
    box.upload(f"/opt/hermes/blobs/incoming/{unit}", b"something else")
    assert unit in {blob["sha256"] for blob in box.fetch(releases.handout(lock), code=7)["missing"]}
    box.deploy(releases, lock)
    assert box.fetch(releases.handout(lock))["missing"] == []
    newer = releases.lock("9.2.0")
    assert [blob["name"] for blob in box.fetch(releases.handout(newer), code=7)["missing"]] == [newer.unit.name]


def test_what_nobody_signed_is_refused(box: Box, releases: SignedReleases) -> None:
    lock = releases.lock()
    handout = releases.handout(lock)
    edited = replace(handout, lock=Signed(releases.lock("9.9.9").to_json().decode(), handout.lock.signature))
    assert "is not valid for this text" in box.fetch(edited, code=3)["error"]
    box.deploy(releases, lock)
    stranger = releases.handout(lock, by="stranger")
    assert "do not follow" in box.fetch(stranger, code=3)["error"]
    mixed = replace(handout, lock=stranger.lock)
    assert "no release signer" in box.fetch(mixed, code=3)["error"]


def test_what_was_revoked_or_needs_a_newer_node_is_refused(box: Box, releases: SignedReleases) -> None:
    lock = releases.lock()
    box.deploy(releases, lock)
    revoked = Revocations().with_revoked(lock.id, "loses messages")
    assert "loses messages" in box.fetch(releases.handout(lock, revocations=revoked), code=3)["error"]
    assert "loses messages" in box.activate(lock, code=3)["error"]
    newer = releases.handout(releases.lock(protocol=99), revocations=revoked)
    assert "protocol 99" in box.fetch(newer, code=3)["error"]
    assert "not fetched" in box.activate(releases.lock("9.3.0"), code=3)["error"]
    assert "number 0, and this machine knows number 1" in box.fetch(releases.handout(lock), code=3)["error"]
    assert box.current == BASE


def test_a_confirmed_release_stays_over_time_and_reboots(box: Box, releases: SignedReleases) -> None:
    lock = releases.lock()
    box.deploy(releases, lock)
    report = box.activate(lock, "--confirm-within", "30")
    assert (report["release"], report["from"], report["state"]) == (lock.id, BASE, "unconfirmed")
    assert box.is_well()
    box.node("release", "confirm", lock.id)
    box.turned_s += 3600
    box.reboot()
    assert (box.current, box.is_well()) == (lock.id, True)
    assert box.node("status")["releases"]["activation"] is None
    assert box.guest.api.answer("GET", "/health", "", {})[1]["version"] == "9.1.0"
    back = box.node("release", "rollback")
    assert (back["release"], box.current, box.is_well()) == (BASE, BASE, True)


@pytest.mark.parametrize("how", ["time", "reboot"])
def test_what_nobody_confirms_is_left_by_itself(box: Box, releases: SignedReleases, how: str) -> None:
    lock = releases.lock()
    box.deploy(releases, lock)
    box.activate(lock, "--confirm-within", "30")
    if how == "time":
        box.turned_s += 31
    else:
        box.reboot()
    assert (box.current, box.is_well()) == (BASE, True)
    last = box.node("release", "show")["last"]
    assert last["to"] == lock.id
    assert last["outcome"] == "confirm_timed_out"
    assert ("in time" if how == "time" else "rebooted") in last["why"]


@pytest.mark.parametrize(("fault", "stage"), [("trial:1", "trial"), ("start:1", "checks"), ("turn:1", "checks")])
def test_a_fault_that_shows_before_anybody_is_let_in_hurts_nobody(
    box: Box, releases: SignedReleases, fault: str, stage: str
) -> None:
    lock = releases.lock(fault=fault)
    box.deploy(releases, lock)
    report = box.activate(lock, code=8)
    assert (report["stage"], box.current, box.is_well()) == (stage, BASE, True)


def test_a_release_whose_state_the_old_one_cannot_read_goes_back_by_a_copy(box: Box, releases: SignedReleases) -> None:
    lock = releases.lock(fault="migrates:1")
    box.deploy(releases, lock)
    assert box.activate(lock)["rollback_method"] == "copy"


def test_faults_that_show_later_are_in_the_figures(box: Box, releases: SignedReleases) -> None:
    before = box.node("probe", "--turn", "20", "--since", "0")
    lock = releases.lock(fault="slow:1:5,memory:1:4,errors:1:3600,restarts:1:120,queue:1:900,late:1:60")
    box.deploy(releases, lock)
    started = box.guest.now()
    box.activate(lock)
    box.node("release", "confirm", lock.id)
    early = box.node("probe", "--turn", "20")
    assert early["turn"]["ok"]
    assert early["turn"]["seconds"] > 2 * before["turn"]["seconds"]
    box.turned_s += 600
    after = box.node("probe", "--turn", "20", "--since", str(started))
    assert after["memory_bytes"] > 3 * before["memory_bytes"]
    assert after["errors"]["count"] > 500
    assert after["restarts"] >= 19
    assert after["queue_age_s"] >= 900
    assert not after["turn"]["ok"]


def test_so_many_machines_have_a_fault_and_always_the_same() -> None:
    hit = [number for number in range(1000) if release_faults_of("start:0.3", f"m-{number}", "r1")]
    assert 250 < len(hit) < 350
    assert hit == [
        number
        for number in range(1000)
        if release_faults_of("start:0.3,slow:1", f"m-{number}", "r1").keys() > {ReleaseFault.SLOW}
    ]
    assert hit != [number for number in range(1000) if release_faults_of("start:0.3", f"m-{number}", "r2")]
