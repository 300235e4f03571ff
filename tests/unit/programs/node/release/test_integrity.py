"""Ten looks at a machine in a folder: each finds what it is for, and nothing else."""

import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesops.programs.node import __main__ as node
from hermesops.programs.node import build
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release import integrity
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.system import files
from hermesops.wire.errors import ExitCode
from hermesops.wire.layout import Layout
from tests.support.fakes.machines.node_system import FakeSystem

RELEASE = "9.1.0-0123456789ab"
UNIT = "hermes-gateway.service"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    for path, content in {
        layout.base: json.dumps({"port": 8642, "home": "/var/lib/hermes"}),
        layout.identity: "{}",
        layout.unit(UNIT): "[Unit]\n",
        layout.releases / RELEASE / UNIT: "[Unit]\n",
        layout.releases / RELEASE / "release.json": json.dumps(
            {"id": RELEASE, "managed": {"config": {"gateway": {"a": 1}}, "environment": {"A": "b c"}}}
        ),
        layout.managed / "config.yaml": json.dumps({"gateway": {"a": 1, "b": 2}, "model": {}}),
        layout.managed / ".env": "A='b c'\nB='d'\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "var/lib/hermes").mkdir(parents=True)
    layout.current.symlink_to(f"releases/{RELEASE}")
    return layout


def failing(layout: Layout, *, listens: bool = True) -> set[str]:
    answer, code = integrity.check(layout, files.read, lambda port: listens and port == 8642, current=files.link_target)
    bad = {check["name"] for check in answer["checks"] if not check["ok"]}
    assert (code, answer["ok"], len(answer["checks"])) == (ExitCode.FAILED if bad else 0, not bad, 10)
    return bad


def test_a_machine_as_it_was_left(layout: Layout) -> None:
    assert failing(layout) == set()
    assert failing(layout, listens=False) == {"listening"}


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")


BREAKS: dict[str, Callable[[Layout], object]] = {
    "unit": lambda layout: layout.unit(UNIT).write_text("[Unit]\nedited\n"),
    "config": lambda layout: (layout.managed / "config.yaml").write_text('{"gateway": {"b": 2}}'),
    "environment": lambda layout: (layout.managed / ".env").write_text("A='b'\n"),
    "settled": lambda layout: _touch(layout.activation),
    "unfenced": lambda layout: _touch(layout.fence),
    "accepting": lambda layout: _touch(layout.root / "var/lib/hermes/.drain_request.json"),
    "owned": lambda layout: layout.identity.unlink(),
    "record": lambda layout: (layout.releases / RELEASE / "release.json").write_text('{"id": "another"}'),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_was_changed_is_named(layout: Layout, name: str) -> None:
    BREAKS[name](layout)
    assert failing(layout) == {name}


def test_a_slot_that_is_gone_or_half(layout: Layout) -> None:
    (layout.releases / RELEASE / "release.json").write_text("{")
    assert {"slot", "record"} <= failing(layout)
    layout.current.unlink()
    assert {"slot", "record"} <= failing(layout)


def test_the_long_way_says_the_same(layout: Layout) -> None:
    out = io.StringIO()
    code = node.run(
        integrity.WORDS, lambda _: Machine(layout, system=FakeSystem(), slots=DiskSlots(layout)), out, io.StringIO()
    )
    answer = json.loads(out.getvalue())
    assert (code, answer["release"]) == (ExitCode.FAILED, RELEASE)
    assert [check["name"] for check in answer["checks"] if not check["ok"]] == ["listening"]


def test_it_is_asked_of_thousands_and_imports_little(tmp_path: Path) -> None:
    program = tmp_path / "hermes-node"
    build.write(program)
    words = [sys.executable, "-I", "-S", "-X", "importtime", str(program), *integrity.WORDS]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert json.loads(done.stdout)["ok"] is False
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "hermesops.programs.node.release.integrity" in imported
    assert not imported & {"argparse", "subprocess", "http.client", "ssl", "sqlite3", "hermesops.programs.node.machine"}


def test_only_who_listens_is_taken_for_listening() -> None:
    """A connection that outlives its server has the same local port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert integrity.listens(port)
        client = socket.create_connection(("127.0.0.1", port))
        held, _ = server.accept()
    with client, held:
        assert not integrity.listens(port)


def test_a_state_that_is_half_in_place_is_found(layout: Layout) -> None:
    layout.restoring.write_bytes(b"")
    assert failing(layout) == {"unfenced"}
