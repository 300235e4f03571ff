"""Whatever a store of releases holds or sends: it is refused within its bounds, and the good one works afterwards."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from hermesops.access.identity import approval
from hermesops.access.identity.approval import Approval, Asked, digest_of
from hermesops.agents.cells.changes import preview
from hermesops.errors import HermesError
from hermesops.infra.engine.embedded.state import bucket as bucket_storage
from hermesops.infra.engine.embedded.state.storage import open_storage
from hermesops.machines.release.blobs import place
from hermesops.machines.release.trust import Chain
from hermesops.programs.node.system.https import download
from hermesops.wire.documents.handout import Handout, Signed
from hermesops.wire.documents.lock import canonical
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import AllowedSigners, Kind
from hermesops.wire.errors import NodeError
from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.mood_server import served_content, served_mood
from tests.support.real.stores.bucket import use_credentials
from tests.support.releases.signer import Operator
from tests.support.releases.trusting_machine import World

pytestmark = pytest.mark.turns(30)

E = TypeVar("E", HermesError, NodeError)

ENDS_S = 15.0
"""Seconds after which something has not ended: many times what it takes on a busy computer."""

LIMIT_S = 0.5
SIZE = 1013
"""Bytes that were signed for; of no mood's answer."""
LOCK, SIGNERS, REVOCATIONS, PREVIEWED, APPROVED = "lock", "signers", "revocations", "preview", "approval"
KINDS = {
    LOCK: Kind.LOCK,
    SIGNERS: Kind.SIGNERS,
    REVOCATIONS: Kind.REVOCATIONS,
    PREVIEWED: preview.FILE.kind,
    APPROVED: approval.FILE.kind,
}
PLACES = (LOCK, SIGNERS, REVOCATIONS)


@dataclass
class Place:
    """A store that was whole once, an operator who remembers it, and a machine that took a release from it."""

    world: World
    whole: Path

    @property
    def store(self) -> Path:
        return Path(self.world.where)

    def put_right(self) -> None:
        shutil.rmtree(self.store)
        shutil.copytree(self.whole, self.store)

    def texts(self) -> dict[str, str]:
        """A good text of each kind."""
        approval_request = Asked("preview of cell1", "production", digest_of(b""), "eve@example.net")
        return {
            LOCK: self.world.lock.to_json().decode(),
            SIGNERS: AllowedSigners(2, self.world.ada.line).to_json().decode(),
            REVOCATIONS: Revocations(9, {}).to_json().decode(),
            PREVIEWED: json.dumps({"cell": "cell1", "environment": "production"}),
            APPROVED: Approval(approval_request, datetime.now(UTC)).to_bytes().decode(),
        }

    def signed(self, text: str, namespace: str) -> Signed:
        return Signed(text, self.world.ada.signers.sign(text.encode(), namespace=namespace))

    def keep(self, where: str, signed: Signed) -> None:
        """Put something into the store where another kind of it belongs."""
        match where:
            case "lock":
                (self.store / f"locks/{self.world.lock.id}.json").write_text(signed.text)
                (self.store / f"locks/{self.world.lock.id}.sig").write_text(signed.signature)
            case "signers":
                chain = json.loads((self.whole / "signers.json").read_text())
                (self.store / "signers.json").write_bytes(canonical([*chain, asdict(signed)]))
            case _:
                (self.store / "revocations.json").write_bytes(canonical(asdict(signed)))

    def handed(self, where: str, signed: Signed) -> Handout:
        """What a machine would be handed that was."""
        handout = self.world.handout()
        match where:
            case "lock":
                return replace(handout, lock=signed)
            case "signers":
                return replace(handout, signers=(*handout.signers, signed))
            case _:
                return replace(handout, revocations=signed)

    def refused_by_controller(self) -> HermesError:
        """How a handout is refused, in time; and the store is put right again."""
        try:
            error = _ended_badly(HermesError, self.world.handout)
        finally:
            self.put_right()
        assert self.world.handout().read_lock() == self.world.lock
        return error

    def refused_by_machine(self, handout: Handout) -> NodeError:
        """How hermes-node refuses it; and a good one is taken afterwards, as if nothing had been."""
        layout = self.world.machine.layout
        before = {path: path.read_bytes() for path in layout.signers.parent.iterdir() if path.name != "lease.json"}
        error = _ended_badly(NodeError, lambda: self.world.fetch(handout))
        assert {path: path.read_bytes() for path in before} == before
        assert self.world.fetch(self.world.handout())[0]["release"] == self.world.lock.id
        return error


def _ended_badly(kind: type[E], what: Callable[[], object]) -> E:
    began = time.monotonic()
    with pytest.raises(kind, match=r"\S") as ended:
        what()
    assert time.monotonic() - began < ENDS_S
    assert len(str(ended.value)) < 2000
    return ended.value


@pytest.fixture(scope="module")
def place_(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("store")
    world = World(folder)
    world.ada.releases(world.where).revoke("0.1.0-000000000000", "old")
    world.fetch(world.handout())
    shutil.copytree(world.where, folder / "whole")
    return Place(world, folder / "whole")


@pytest.mark.turns(40)
@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("where", PLACES)
def test_no_kind_of_signed_text_is_taken_for_another(place_: Place, where: str, given: str) -> None:
    text = place_.texts()[given]
    for namespace in KINDS.values():
        if where == given and namespace == KINDS[where]:
            continue  # it is what belongs there
        signed = place_.signed(text, namespace)
        place_.keep(where, signed)
        place_.refused_by_controller()
        place_.refused_by_machine(place_.handed(where, signed))


@pytest.mark.parametrize("where", PLACES)
def test_what_a_stranger_signed_counts_for_nothing(place_: Place, where: str) -> None:
    eve = Operator(place_.world.folder, f"eve-{where}")
    signed = eve.signed(place_.texts()[where], Kind(KINDS[where]))
    place_.keep(where, signed)
    place_.refused_by_controller()
    place_.refused_by_machine(place_.handed(where, signed))


JUNK = {
    "empty": "",
    "a comment": "# nobody\n",
    "no key": "ada@example.net\n",
    "a key that is none": 'ada@example.net namespaces="hermesops-*" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\n',
    "another type": "ada@example.net ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
    "a line of revocations": '{"floor":"","number":5}\n',
    "a NUL": "ada\0\n",
    "escapes": "\x1b]52;c;Y3VybA==\x07 ssh-ed25519 AAAA\n",
    "a long line": "ada " + "x" * 60_000 + "\n",
    "many": "# one\n" * 65,
    "too large": "#" * 100_000 + "\n",
}


@pytest.mark.parametrize("junk", JUNK)
def test_signers_with_junk_that_a_good_key_has_signed_are_no_signers(place_: Place, junk: str) -> None:
    for lines in (JUNK[junk], place_.world.ada.line + JUNK[junk]):
        if junk in {"empty", "a comment"} and lines != JUNK[junk]:
            continue  # a comment beside somebody is no junk
        text = canonical({"format": 1, "number": 2, "signers": lines}).decode()
        signed = place_.signed(text, Kind.SIGNERS)
        place_.keep(SIGNERS, signed)
        place_.refused_by_controller()
        place_.refused_by_machine(place_.handed(SIGNERS, signed))


def _many(count: int) -> str:
    return Revocations(9, {f"0.1.0-{number:012x}": "old" for number in range(count)}).to_json().decode()


ODD_REVOCATIONS = {
    "10^5 of them": _many(100_000),
    "a number beyond": canonical({"floor": "", "format": 1, "number": 10**18, "revoked": {}}).decode(),
    "no finite number": '{"floor":"","format":1,"number":1e400,"revoked":{}}\n',
    "a name twice": '{"floor":"","format":1,"number":9,"number":9,"revoked":{}}\n',
    "not its spelling": '{"floor": "", "format": 1, "number": 9, "revoked": {}}',
    "deep": "[" * 100_000,
    "another format": canonical({"floor": "", "format": 2, "number": 9, "revoked": {}}).decode(),
    "older": Revocations(0, {}).to_json().decode(),
    "others of that number": Revocations(1, {}, floor="0.1.0").to_json().decode(),
}


@pytest.mark.parametrize("odd", ODD_REVOCATIONS)
def test_odd_revocations_that_a_good_key_has_signed_are_refused(place_: Place, odd: str) -> None:
    signed = place_.signed(ODD_REVOCATIONS[odd], Kind.REVOCATIONS)
    place_.keep(REVOCATIONS, signed)
    if odd in {"older", "others of that number"}:  # only who remembers can tell
        memory = place_.world.ada.releases(str(place_.whole)).trust.memory
        place_.world.ada.releases(str(place_.whole), memory).revocations()
        releases = place_.world.ada.releases(place_.world.where, memory)
        assert "this computer knows number 1" in str(_ended_badly(HermesError, releases.revocations)) or odd != "older"
        place_.put_right()
    else:
        place_.refused_by_controller()
    place_.refused_by_machine(place_.handed(REVOCATIONS, signed))


def test_a_handout_as_large_as_it_may_be_is_taken(place_: Place) -> None:
    held = place_.signed(_many(20_000), Kind.REVOCATIONS)
    machine = place_.world.another_machine("large")
    assert place_.world.fetch(place_.handed(REVOCATIONS, held), machine)[0]["release"] == place_.world.lock.id


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_files_that_were_cut_short_are_refused(place_: Place, share: float) -> None:
    names = [
        "signers.json",
        "revocations.json",
        f"locks/{place_.world.lock.id}.json",
        f"locks/{place_.world.lock.id}.sig",
    ]
    for name in names:
        data = (place_.whole / name).read_bytes()
        (place_.store / name).write_bytes(data[: int(len(data) * share)])
        place_.refused_by_controller()
    handout = place_.world.handout().to_json()
    path = place_.world.machine.layout.root / "run/hermes-node/handout.json"
    cut = handout[: int(len(handout) * share)]
    place_.refused_by_machine(_raw(cut))
    assert not path.exists()


def _raw(data: bytes) -> Handout:
    """Something that hands these very bytes in."""
    raw = Handout(Signed("", ""), ())
    object.__setattr__(raw, "to_json", lambda: data)
    return raw


@pytest.mark.parametrize("name", ["signers.json", "revocations.json", "locks/{}.json", "locks/{}.sig"])
def test_endless_files_are_read_up_to_their_limit(place_: Place, name: str) -> None:
    file = place_.store / name.format(place_.world.lock.id)
    file.unlink()
    file.symlink_to("/dev/zero")
    place_.refused_by_controller()


@pytest.mark.parametrize("harm", ["endless", "short", "long", "other", "gone"])
def test_a_file_of_another_size_or_content_is_named_and_never_handed_on(place_: Place, harm: str) -> None:
    blob = place_.world.lock.uv
    file = place_.store / place(blob)
    data = file.read_bytes()
    file.unlink()
    match harm:
        case "endless":
            file.symlink_to("/dev/zero")
        case "short":
            file.write_bytes(data[:-1])
        case "long":
            file.write_bytes(data + bytes(1 << 20))
        case "other":
            file.write_bytes(bytes(len(data)))
    releases = place_.world.ada.releases(place_.world.where)
    try:
        _ended_badly(HermesError, lambda: releases.blob(blob))
        assert [damage.name for damage in releases.verify(place_.world.lock.id)] == [blob.name]
    finally:
        place_.put_right()
    assert releases.verify(place_.world.lock.id) == ()


def test_a_chain_that_is_longer_than_any_is_refused(place_: Place) -> None:
    signed = place_.world.ada.first_signers()
    handout = replace(place_.world.handout(), signers=(signed,) * 257)
    (place_.store / "signers.json").write_bytes(canonical([asdict(signed)] * 257))
    place_.refused_by_controller()
    place_.refused_by_machine(handout)


def test_an_old_chain_is_refused_by_who_knows_a_newer_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    memory = world.ada.releases(world.where).trust.memory
    old = (tmp_path / "releases/signers.json").read_bytes()
    before = world.handout()
    bob = Operator(tmp_path, "bob")
    world.ada.releases(world.where, memory).replace_signers(world.ada.line + bob.line, sign_again=False)
    assert len(Chain.from_json(memory.read("signers.json") or b"").signed) == 2
    world.fetch(world.handout())
    for content in (old, b"[]\n", None):
        file = tmp_path / "releases/signers.json"
        file.write_bytes(content) if content is not None else file.unlink()
        error = _ended_badly(HermesError, world.ada.releases(world.where, memory).list)
        assert str(error.hint) == "hermesops release signers restore --reason WHY"
    assert "knows number 2" in str(_ended_badly(NodeError, lambda: world.fetch(before)))
    world.ada.releases(world.where, memory).restore()
    assert world.fetch(world.handout())[0]["release"] == world.lock.id


@pytest.mark.parametrize("mood", MOODS)
def test_a_download_ends_in_time_and_takes_no_more_than_was_signed_for(tmp_path: Path, mood: str) -> None:
    ended: list[bool] = []
    target = tmp_path / "file"

    def fetch(port: int) -> None:
        ended.append(download(f"http://127.0.0.1:{port}/x", target, size=SIZE, until=time.monotonic() + LIMIT_S))

    with served_mood(mood) as port:
        fetching = threading.Thread(target=fetch, args=(port,), daemon=True)
        fetching.start()
        fetching.join(ENDS_S)
    assert ended == [False]
    assert not target.exists() or target.stat().st_size <= SIZE + 1
    with served_content(b"x" * SIZE) as port:
        assert download(f"http://127.0.0.1:{port}/x", target, size=SIZE, until=time.monotonic() + ENDS_S)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    use_credentials(monkeypatch)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(bucket_storage, "_WHOLE_S", LIMIT_S)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("mood", sorted(mood for mood in MOODS if mood.startswith(("drips", "silent", "endless"))))
def test_a_bucket_that_never_ends_an_answer_is_left(mood: str) -> None:
    with served_mood(mood) as port:
        url = f"s3://releases?region=us-east-1&endpoint=http://127.0.0.1:{port}&s3ForcePathStyle=true"
        bucket = open_storage(url, setting="releases")
        began = time.monotonic()
        try:
            content = bucket.read("signers.json", at_most=1000)
        except HermesError:
            content = b""
    assert time.monotonic() - began < ENDS_S
    assert len(content or b"") <= 1000
