"""hermes-node's own update: the new program is used once it has answered, and not before."""

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hermesops.programs.node.release.slots import install
from hermesops.programs.node.release.slots.install import update_node
from hermesops.wire.documents.lock import Blob, Wheels
from hermesops.wire.errors import RefusedError
from hermesops.wire.layout import Layout

WELL = """#!/bin/sh
[ "$1" = status ] && echo '{"node": {"version": "%s"}}'
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.blobs.mkdir(parents=True)
    layout.program.parent.mkdir(parents=True)
    layout.program.write_text("by a role")
    return layout


def offered(layout: Layout, text: str) -> Blob:
    digest = hashlib.sha256(text.encode()).hexdigest()
    (layout.blobs / digest).write_text(text)
    return Blob("hermes-node", digest, len(text))


def test_one_that_answers_becomes_the_machines_and_the_one_before_stays(layout: Layout) -> None:
    program = offered(layout, WELL % "2")
    assert update_node(layout, program) == ""
    assert layout.program.is_symlink()
    assert layout.program.read_text() == WELL % "2"
    assert (layout.program.parent / "versions/role").read_text() == "by a role"
    assert layout.program.stat().st_mode & 0o777 == 0o755
    modified_ns = layout.program.resolve().stat().st_mtime_ns
    assert update_node(layout, program) == ""
    assert layout.program.resolve().stat().st_mtime_ns == modified_ns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\nexit 1\n", "does not answer"),
        ('#!/bin/sh\necho \'{"error": "no such machine"}\'; exit 4\n', "no such machine"),
        ("no program at all", "does not answer"),
        ("", "does not answer"),
    ],
)
def test_one_that_does_not_is_never_used(layout: Layout, text: str, why: str) -> None:
    assert update_node(layout, offered(layout, WELL % "2")) == ""
    before = layout.program.readlink()
    assert why in update_node(layout, offered(layout, text))
    assert layout.program.readlink() == before
    assert sorted(path.name for path in (layout.program.parent / "versions").iterdir()) == sorted(["role", before.name])


def test_only_the_last_few_are_kept(layout: Layout) -> None:
    for version in range(6):
        assert update_node(layout, offered(layout, WELL % version)) == ""
    kept = list((layout.program.parent / "versions").iterdir())
    assert len(kept) == 3
    assert layout.program.resolve() in kept


def archive_of(path: Path, *members: tuple[str, str]) -> Path:
    """An archive of files, and of links where a target is given."""
    with tarfile.open(path, "w:gz") as archive:
        for name, target in members:
            info = tarfile.TarInfo(name)
            info.mode, info.uid = 0o4777, 1234
            if target:
                info.type, info.linkname = tarfile.SYMTYPE, target
            else:
                info.size = 4
            archive.addfile(info, io.BytesIO(b"text") if not target else None)
    return path


def test_a_python_is_unpacked_with_the_links_that_stay_in_it(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path / "python.tar.gz",
        ("python/bin/python3.14", ""),
        ("python/bin/python3", "python3.14"),
        ("python/lib/out", "../../venv"),
        ("python/lib/root", "/etc/passwd"),
        ("python/../escaped", ""),
        ("escaped", ""),
        ("other/file", ""),
    )
    install._unpack(archive, tmp_path / "slot", lambda first: first == "python", links=True)
    names = {path.relative_to(tmp_path / "slot").as_posix() for path in (tmp_path / "slot").rglob("*")}
    assert names == {"python", "python/bin", "python/bin/python3", "python/bin/python3.14"}
    assert (tmp_path / "slot/python/bin/python3.14").stat().st_mode & 0o7777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["python.tar.gz", "slot"]


def test_no_file_is_unpacked_through_a_link(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path / "python.tar.gz",
        ("python/a/b/up", ".."),
        ("python/a/b/up/c/out", "../../.."),
        ("python/a/b/up/file", ""),
        ("python/back", "a/b/up/../../.."),
        ("python/back/file", ""),
    )
    install._unpack(archive, tmp_path / "slot", lambda first: first == "python", links=True)
    names = {path.relative_to(tmp_path / "slot").as_posix() for path in (tmp_path / "slot").rglob("*")}
    assert {"python/a/b/up", "python/back/file"} <= names
    assert not (tmp_path / "slot/python/back").is_symlink()
    assert not (tmp_path / "slot/python/a/file").exists()
    assert not (tmp_path / "slot/python/a/c").exists()


def test_room_is_needed_for_the_python_too(tmp_path: Path) -> None:
    archive = tmp_path / "python.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        info = tarfile.TarInfo("python/lib/large")
        info.size = 1 << 26
        opened.addfile(info, io.BytesIO(bytes(info.size)))
    wheels = Wheels(Blob("requirements.txt", "0" * 64, 0), ())
    free = shutil.disk_usage(tmp_path).free
    install._refuse_full(tmp_path, wheels, [], tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "_COMPILED", (free + (1 << 30)) / (1 << 26))
        with pytest.raises(RefusedError, match="no room for the slot"):
            install._refuse_full(tmp_path, wheels, [archive], tmp_path)


def test_folders_of_a_slot_can_be_read_by_the_agent_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, slot = tmp_path / "blobs", tmp_path / "releases" / "1"
    blobs.mkdir()
    slot.parent.mkdir()
    skills = archive_of(blobs / "s", ("skills/greet/SKILL.md", ""))
    resources = archive_of(blobs / "r", ("locales/en.yaml", ""))
    (blobs / "u").write_text("")
    lock = SimpleNamespace(
        id="1",
        interpreter=None,
        site=(),
        wheels=lambda _python: Wheels(Blob("r", "q", 0), ()),
        python_on=lambda python: python,
        uv=Blob("uv", "u", 0),
        skills=Blob("skills.tar.gz", skills.name, 0),
        resources=Blob("resources.tar.gz", resources.name, 0),
        unit=Blob("unit", "u", 0),
    )
    monkeypatch.setattr(install, "_install", lambda *_: None)
    before = os.umask(0o077)
    try:
        install.fill(slot, cast("Any", lock), blobs, "3.11")
    finally:
        os.umask(before)
    closed = [path for path in (slot, *slot.rglob("*")) if path.stat().st_mode & 0o005 == 0]
    assert closed == []
    assert (slot / "skills/greet/SKILL.md").is_file()
    assert (slot / "resources/locales/en.yaml").is_file()
