"""Builds of releases from an index in memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.machines.release.blobs import blob_of, place
from hermesops.machines.release.builder.build import BuildRequest, Built
from hermesops.machines.release.builder.rebuild import Rebuilder
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.service import ReleaseChanges
from hermesops.machines.release.simulated import SimulatedBuilder
from hermesops.wire.documents.lock import Interpreter, Lock, Managed
from tests.support.releases.package_index import (
    AT,
    Index,
    MemoryStore,
    agent_wheel,
    builder_of,
    file_of,
    order,
    parts,
    releases_in,
)
from tests.support.releases.signer_lines import lines_of


class Workshop:
    """A store that ada signs for, and an index."""

    def __init__(self, folder: Path) -> None:
        self.store, self.index, self.folder = MemoryStore(), Index(), folder
        folder.mkdir(exist_ok=True)
        self.releases = releases_in(self.store)
        self.releases.replace_signers(lines_of("ada"), sign_again=False)

    def build(self, wanted: BuildRequest) -> Built:
        return builder_of(self.releases, self.index, self.folder).build(wanted, who="ada", note="why", at=AT)

    def rebuild(self, lock: Lock, *given: Path, pinned: tuple[PinnedFile, ...] = ()) -> Built:
        rebuilder = Rebuilder(builder_of(self.releases, self.index, self.folder), given, pinned)
        return rebuilder.build(lock, who="bob", note="again", at=AT)

    def content(self, name: str, lock: Lock) -> bytes:
        blob = next(blob for blob in lock.all_blobs() if blob.name == name)
        return self.releases.blob(blob)


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_a_release_holds_all_that_its_machines_need(shop: Workshop) -> None:
    built = shop.build(order(pythons=("3.12", "3.11")))
    lock = shop.releases.read(built.lock.id)
    assert (built.made, built.lock, lock.agent_version, lock.origin) == (True, lock, "0.19.0", "index")
    assert sorted(lock.pythons) == ["3.11", "3.12"]
    assert shop.releases.verify(lock.id) == ()
    names = {blob.name for blob in lock.blobs("3.12")}
    assert {file_of("0.19.0"), "requirements.txt", "uv", "skills.tar.gz", "hermes-sandbox.pth", "hermes-node"} < names
    assert not {name for name in names if "cp311" in name}
    assert shop.content("skills.tar.gz", lock) == b"skills of 0.19.0"


def test_a_wheel_for_every_python_is_fetched_once(shop: Workshop) -> None:
    lock = shop.build(order(pythons=("3.11", "3.12", "3.13"))).lock
    assert shop.index.asked.count(file_of("0.19.0")) == 1
    assert sum(name.startswith("aiohttp-") for name in shop.index.asked) == 3
    assert all(len(wheels.wheels) == 2 for wheels in lock.pythons.values())


def test_units_and_managed_settings_follow_the_agent(shop: Workshop) -> None:
    old, new = shop.build(order("0.18.2")).lock, shop.build(order("0.19.0")).lock
    assert shop.content("hermes-gateway.service", old) == b"Type=simple\n"
    assert shop.content("hermes-gateway.service", new) == b"Type=notify\n"
    assert old.managed.config == {"gateway": {"systemd_watchdog_seconds": 0}}
    assert new.managed.config == {"gateway": {"systemd_watchdog_seconds": 30}}


def test_what_an_operator_lays_over_wins(shop: Workshop) -> None:
    over = Managed({"gateway": {"systemd_watchdog_seconds": 60}, "agent": {"max_turns": 3}}, {"TZ": "UTC"})
    lock = shop.build(replace(order(), managed=over)).lock
    assert lock.managed == over


def test_the_same_content_is_the_same_release(shop: Workshop, tmp_path: Path) -> None:
    first, count = shop.build(order()), len(shop.index.asked)
    again = shop.build(order())
    assert (again.lock, again.made) == (first.lock, False)
    assert len(shop.index.asked) == count  # everything was there
    other = Workshop(tmp_path / "other")
    other.build(order())
    assert other.store.held == shop.store.held


def test_a_release_built_from_a_lock_is_the_same_to_the_byte(shop: Workshop, tmp_path: Path) -> None:
    lock = shop.build(order(pythons=("3.11", "3.13"))).lock
    other = Workshop(tmp_path / "other")
    assert other.rebuild(lock).made
    about = f"builds/{lock.id}.json"
    theirs, ours = dict(other.store.held), dict(shop.store.held)
    assert theirs.pop(about) != ours.pop(about)
    assert theirs == ours


def test_a_damaged_release_is_mended_from_its_lock(shop: Workshop) -> None:
    lock = shop.build(order()).lock
    for blob in lock.all_blobs():
        before = shop.store.held.pop(place(blob))
        shop.rebuild(lock)
        assert shop.store.held[place(blob)] == before
        shop.store.held[place(blob)] = before[:-1]
        assert [damage.name for damage in shop.releases.verify(lock.id)] == [blob.name]
        shop.rebuild(lock)
        assert shop.releases.verify(lock.id) == ()


def test_a_whole_release_is_built_again_without_an_index(shop: Workshop) -> None:
    lock = shop.build(order()).lock
    shop.index.is_up = False
    assert not shop.rebuild(lock).made


def test_what_would_be_something_else_now_is_not_built_again(shop: Workshop) -> None:
    lock = shop.build(order()).lock
    other = replace(lock, node=replace(lock.node, program=replace(lock.node.program, sha256="0" * 64)))
    with pytest.raises(RefusedError, match="hermes-node would be something else now"):
        shop.rebuild(other)
    assert not shop.releases.holds(other)


def test_an_agent_of_no_index_comes_as_a_wheel(shop: Workshop, tmp_path: Path) -> None:
    wheel = tmp_path / file_of("0.20.0")
    wheel.write_bytes(agent_wheel("0.20.0", schema=37))
    lock = shop.build(BuildRequest(wheel=wheel, pythons=("3.11",))).lock
    assert (lock.agent_version, lock.origin, lock.config_schema) == ("0.20.0", "wheel", 37)
    assert shop.content(wheel.name, lock) == wheel.read_bytes()


def test_such_an_agent_brings_its_own_skills_or_takes_older_ones(shop: Workshop, tmp_path: Path) -> None:
    wheel, source = tmp_path / file_of("0.20.0"), tmp_path / "hermes_agent-0.20.0.tar.gz"
    wheel.write_bytes(agent_wheel("0.20.0"))
    source.write_bytes(b"its own")
    own = shop.build(BuildRequest(wheel=wheel, source=source, pythons=("3.11",))).lock
    assert shop.content("skills.tar.gz", own) == b"its own"
    assert "source" not in shop.index.asked


def test_such_a_release_is_built_again_with_its_wheel_only(shop: Workshop, tmp_path: Path) -> None:
    wheel, source = tmp_path / file_of("0.20.0"), tmp_path / "hermes_agent-0.20.0.tar.gz"
    wheel.write_bytes(agent_wheel("0.20.0"))
    source.write_bytes(b"its own")
    lock = shop.build(BuildRequest(wheel=wheel, source=source, pythons=("3.11",))).lock
    other = Workshop(tmp_path / "other")
    with pytest.raises(RefusedError, match="on no package index") as refused:
        other.rebuild(lock)
    assert "--from WHEEL" in str(refused.value.hint)
    assert other.rebuild(lock, wheel, source).made


def test_a_python_of_a_release_comes_from_wherever_it_is_named(shop: Workshop, tmp_path: Path) -> None:
    archive = tmp_path / "python.tar.gz"
    archive.write_bytes(b"a Python")
    link = tmp_path / "link"
    link.symlink_to(archive)
    blob = blob_of("cpython-3.11.9-x86_64.tar.gz", archive.read_bytes())
    lock = replace(shop.build(order()).lock, interpreter=Interpreter("3.11.9", blob, ""))
    with pytest.raises(RefusedError, match=r"cpython-3\.11\.9.* would be something else now"):
        shop.rebuild(lock)
    for text in (f"{archive}", f"{link}#sha256={blob.sha256}", f"{tmp_path / 'gone'},{link}"):
        pin = ReleaseChanges.interpreter_of(lock, text)
        assert pin is not None
        assert Workshop(tmp_path / f"other-{len(text)}").rebuild(lock, pinned=(pin,)).made, text
    assert ReleaseChanges.interpreter_of(lock, "none") is None
    for text, problem in (("python3", "is a program of this computer, /"), (f"{tmp_path / 'gone'}", "cannot be read")):
        pin = ReleaseChanges.interpreter_of(lock, text)
        assert pin is not None
        with pytest.raises(RefusedError, match=problem):
            shop.rebuild(lock, pinned=(pin,))


def test_another_python_than_the_releases_own_is_refused_by_name(shop: Workshop) -> None:
    lock = shop.build(order()).lock
    with pytest.raises(UsageError, match=f"release {lock.id} brings no Python"):
        ReleaseChanges.interpreter_of(lock, "python.tar.gz")
    lock = replace(lock, interpreter=Interpreter("3.11.9", blob_of("cpython-3.11.9-x86_64.tar.gz", b"x"), ""))
    with pytest.raises(UsageError, match=r"the Python of release .* has SHA-256"):
        ReleaseChanges.interpreter_of(lock, f"python.tar.gz#sha256={'0' * 64}")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [("truncated", "no whole wheel"), ("absent", "cannot be read"), ("misnamed", "not named as a wheel")],
)
def test_a_bad_wheel_is_refused_and_nothing_kept(shop: Workshop, tmp_path: Path, damage: str, problem: str) -> None:
    wheel, content = tmp_path / file_of("0.20.0"), agent_wheel("0.20.0")
    match damage:
        case "truncated":
            wheel.write_bytes(content[:-40])
        case "misnamed":
            wheel = tmp_path / "agent.whl"
            wheel.write_bytes(content)
        case _:
            pass
    before = dict(shop.store.held)
    with pytest.raises(RefusedError, match=problem) as refused:
        shop.build(BuildRequest(wheel=wheel, pythons=("3.11",)))
    assert wheel.name in refused.value.message
    assert shop.store.held == before


def test_an_agent_that_nobody_has_is_refused(shop: Workshop) -> None:
    with pytest.raises(RefusedError, match=r"hermes-agent\[mcp\]==0\.22\.9"):
        shop.build(order("0.22.9"))
    assert shop.releases.list() == ()


def test_an_index_that_is_down_is_said_to_be(shop: Workshop) -> None:
    shop.index.is_up = False
    with pytest.raises(UnavailableError, match="package index does not answer"):
        shop.build(order())


def test_an_order_of_nothing_or_of_two_is_none(shop: Workshop, tmp_path: Path) -> None:
    for wrong in (
        BuildRequest(),
        BuildRequest(agent="0.19.0"),
        BuildRequest(agent="0.19.0", wheel=tmp_path, pythons=("3.11",)),
    ):
        with pytest.raises(UsageError, match="of an agent's version, a wheel or a source"):
            shop.build(wrong)


def test_a_simulated_release_is_built_without_an_index(shop: Workshop, tmp_path: Path) -> None:
    shop.index.is_up = False
    builder = SimulatedBuilder(
        shop.releases, shop.index, shop.index, parts(shop.index, tmp_path), tmp_path, lambda _: None
    )
    over = Managed({}, {"HERMES_SIMULATED_FAULT": "start:0.3"})
    lock = builder.build(replace(order(), managed=over), who="ada", note="", at=AT).lock
    assert (lock.origin, lock.pythons, lock.managed.environment) == ("simulated", {}, over.environment)
    assert shop.releases.verify(lock.id) == ()
    assert shop.releases.handout(lock.id, "3.14").read_lock() == lock
    with pytest.raises(UsageError, match="no wheel"):
        builder.build(BuildRequest(wheel=tmp_path / "x.whl", pythons=("3.11",)), who="ada", note="", at=AT)
