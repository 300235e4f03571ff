"""hermes-node's own update: the new program is used once it has answered, and not before."""

import hashlib
from pathlib import Path

import pytest

from hermesops.programs.node.release.slots.install import update_node
from hermesops.wire.documents.lock import Blob
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
    made = layout.program.resolve().stat().st_mtime_ns
    assert update_node(layout, program) == ""
    assert layout.program.resolve().stat().st_mtime_ns == made


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
