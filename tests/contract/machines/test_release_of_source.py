"""Releases of a tag's archive with the real walls, uv and setuptools; builds that misbehave keep nothing."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.image.packages.download import NEWEST_GLIBC, Pip
from hermesops.machines.release.builder.build import Builder, BuildRequest
from hermesops.machines.release.builder.rebuild import Rebuilder
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.limits import Limits
from hermesops.machines.release.source.memory_scope import MemoryScope
from hermesops.wire.documents.lock import Lock
from tests.support.releases.own_python import own_python_archive
from tests.support.releases.package_index import AT, Index, MemoryStore, parts, releases_in
from tests.support.releases.signer_lines import lines_of
from tests.support.releases.source_archive import SourceShape, small_agent
from tests.support.suite.kept import shared_cache
from tests.support.suite.prerequisites import require

PYTHONS = ("3.11", "3.12")


class Workshop:
    """A store, real programs, and no index for agents."""

    def __init__(self, folder: Path) -> None:
        require(shutil.which("bwrap") is not None, "bubblewrap")
        self.folder, self.store = folder, MemoryStore()
        folder.mkdir(exist_ok=True)
        self.releases = releases_in(self.store)
        self.releases.replace_signers(lines_of("ada"), sign_again=False)
        environ = os.environ  # noqa: TID251 - pip's own settings, as a user has them
        self.pip = Pip(environ, shared_cache() / "packages")
        self.resolver = Resolver(environ, glibc=NEWEST_GLIBC)
        self.said: list[str] = []

    def builder(self, limits: Limits = Limits()) -> Builder:  # noqa: B008 - never changed
        own = replace(parts(Index(), self.folder), extras="[mcp,messaging,web]")
        scratch, say = self.folder / "scratch", self.said.append
        return Builder(self.releases, self.resolver, self.pip, own, scratch, say, Isolation(limits))

    def build(self, shape: SourceShape, *, interpreter: PinnedFile | None = None, limits: Limits = Limits()) -> Lock:  # noqa: B008 - as above
        archive = shape.packed(self.folder / "v2026.9.24.tar.gz")
        order = BuildRequest(archive=archive, interpreter=interpreter, pythons=PYTHONS)
        return self.builder(limits).build(order, who="ada", note="", at=AT).lock


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "shop")


def test_two_builds_of_a_tag_are_one_release_that_says_what_it_brings(shop: Workshop, tmp_path: Path) -> None:
    lock = shop.build(small_agent())
    assert (lock.agent_version, lock.origin, lock.config_schema, sorted(lock.pythons)) == (
        "0.21.5",
        "source",
        45,
        list(PYTHONS),
    )
    assert lock.interpreter is None
    assert lock.resources is not None
    unit = shop.releases.blob(lock.unit).decode()
    assert unit == "Type=notify\n", "the workshop's own unit names no folders"
    weakness = shop.builder().isolation.weakness
    assert [line for line in shop.said if "bounded for each process" in line] == (
        [f"building from source: {weakness}"] if weakness else []
    )
    other = Workshop(tmp_path / "other")
    assert other.build(small_agent()) == lock
    assert other.store.held == shop.store.held


@pytest.mark.turns(20)
def test_a_release_brings_a_python_that_its_machines_lack(shop: Workshop) -> None:
    shape = small_agent()
    shape.pythons = ">=3.11,<3.12"
    with pytest.raises(RefusedError, match=r"for Python <3\.12,>=3\.11, and machines have 3\.12") as refusal:
        shop.build(shape)
    assert "--interpreter" in str(refusal.value.hint)
    lock = shop.build(shape, interpreter=own_python_archive())
    assert lock.interpreter is not None
    assert (list(lock.pythons), lock.interpreter.version[:5]) == (["3.11"], "3.11.")
    assert lock.blobs("3.13") == lock.blobs("3.12") == lock.all_blobs()

    # A part that is lost is built again, of the archive alone.
    wheel = lock.pythons["3.11"].wheels[0]
    for blob in (wheel, lock.skills, lock.resources):
        assert blob is not None
        before = shop.store.held.pop(f"blobs/{blob.sha256}")
        Rebuilder(shop.builder(), (shop.folder / "v2026.9.24.tar.gz",)).build(lock, who="ada", note="", at=AT)
        assert shop.store.held[f"blobs/{blob.sha256}"] == before


MISBEHAVED = {
    "network": ("import socket; socket.create_connection(('192.0.2.1', 80), 5)", "asked for a network"),
    "endless": ("while True: pass", "did not end within 8 s"),
    "sleeping": ("import time; time.sleep(3600)", "did not end within 8 s"),
    "greedy": ("bytearray(64 << 30)", "MemoryError"),
    "forking": ("import time\nfor _ in range(99): os.fork() or time.sleep(60)", "Resource temporarily unavailable"),
    "filling": ("open('/build/huge', 'wb').write(bytes(300 << 20))", "File too large"),
    "beside": ("open('/planted', 'wb').write(b'x')", "Read-only file system: '/planted'"),
    "curious": ("print(open('/etc/passwd').read())", "No such file or directory: '/etc/passwd'"),
    "environment": ("assert 'HERMESOPS_HOME' in os.environ, sorted(os.environ)", "AssertionError: .*HERMES_NIX_BUILD"),
    "loud": ("print('\\x1b[31m' * 100000); sys.exit('\\x1b]0;owned\\x07')", r"failed: [ -~]+$"),
}


@pytest.mark.parametrize("how", MISBEHAVED)
def test_a_build_that_misbehaves_is_named_and_nothing_is_kept(shop: Workshop, how: str) -> None:
    shape = small_agent()
    shape.extra, match = MISBEHAVED[how]
    before = dict(shop.store.held)
    with pytest.raises(RefusedError, match=match) as refusal:
        shop.build(shape, limits=Limits(seconds=8.0 if "less" in how or how == "sleeping" else 60.0))
    assert "v2026.9.24.tar.gz" in refusal.value.message
    assert shop.store.held == before


def test_a_tag_that_is_built_in_another_way_is_named(shop: Workshop) -> None:
    shape = small_agent()
    shape.build = ("setuptools==1.0",)
    with pytest.raises(RefusedError, match=r"built with setuptools==1\.0, and neither"):
        shop.build(shape)
    shape.build, shape.lock = ("setuptools==83.0.0",), "version = 1\n[[package]\n"
    with pytest.raises(RefusedError, match=r"reading uv\.lock of v2026\.9\.24\.tar\.gz failed"):
        shop.build(shape)
    del shape.files["skills/greet/SKILL.md"]
    shape.lock = ""
    with pytest.raises(RefusedError, match="holds no skills"):
        shop.build(shape)
    assert shop.releases.list() == ()


class _Counted(MemoryScope):
    """A scope of a kernel that has ended two processes."""

    def command(self, words: Sequence[str], report: Path) -> list[str]:
        return ["sh", "-c", 'echo 2 >"$0"; exec "$@"', str(report), *words]


@pytest.mark.parametrize("code", [0, 137])
def test_a_build_that_lost_a_process_to_the_limit_of_memory_is_named_even_if_it_went_on(code: int) -> None:
    require(shutil.which("bwrap") is not None, "bubblewrap")
    isolation = Isolation(Limits(memory_bytes=512 << 20))
    isolation.__dict__["scope"] = _Counted(512 << 20)
    with pytest.raises(RefusedError, match="a build used more than 512 MiB of memory and was stopped"):
        isolation.run("a build", ["/bin/sh", "-c", f"exit {code}"], {}, {})


@dataclass(frozen=True)
class _Refusing(MemoryScope):
    """A scope that was well when it was tried; in it nothing starts any more.

    Attributes:
        script: Writes why, and its report into ``$0`` where a unit was made.
    """

    script: str = ""

    def command(self, words: Sequence[str], report: Path) -> list[str]:
        del words
        return ["sh", "-c", f"{self.script} >&2; exit 1", str(report)]


def test_where_systemd_starts_no_unit_or_no_walls_stand_a_build_is_refused_by_name_and_nothing_is_kept(
    shop: Workshop,
) -> None:
    before, no_unit, no_walls = dict(shop.store.held), Isolation(), Isolation()
    no_unit.__dict__["scope"] = _Refusing(1, "echo Failed to start transient scope unit: Access denied")
    no_walls.__dict__["scope"] = _Refusing(1, 'echo 0 >"$0"; echo bwrap: No permissions to create new namespace')
    cases = (
        (no_unit, "systemd starts no unit around a build here: Failed to start transient scope unit: Access denied"),
        (no_walls, "this computer does not allow the walls around a build: bwrap: No permissions"),
        (Isolation(bwrap="no-such-bwrap"), "building from source needs bubblewrap"),
    )
    order = BuildRequest(archive=small_agent().packed(shop.folder / "v2026.9.24.tar.gz"), pythons=PYTHONS)
    for walled, match in cases:
        with pytest.raises(RefusedError, match=match):
            replace(shop.builder(), isolation=walled).build(order, who="ada", note="", at=AT)
    assert (shop.store.held, shop.releases.list()) == (before, ())


def test_an_orphan_of_a_killed_hermesops_ends_by_itself() -> None:
    words = Isolation(Limits(seconds=8.0)).command(["/bin/true"], {}, None, Path("/nowhere"))
    assert words[words.index("timeout") :][:3] == ["timeout", "--signal=KILL", "38"]


def test_without_walls_nothing_is_built() -> None:
    with pytest.raises(RefusedError, match="needs bubblewrap"):
        Isolation(bwrap="no-such-bwrap").run("a build", ["/bin/true"], {}, {})
