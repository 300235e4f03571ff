"""The two ends of the sandbox, run on this computer as they are, without the unit that limits them on a machine."""

import array
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.releases.role_files import verbatim

ROLE = "hermes_gateway"
TIMEOUT_S = 20


@contextmanager
def _served(folder: Path, limit_s: float = TIMEOUT_S) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """The asking end of a connection, at whose other end the inside was started, as systemd does."""
    program = folder / "serve.py"
    program.write_text(verbatim(ROLE, "serve.py"))
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    words = [sys.executable, str(program), str(limit_s)]
    with ours, subprocess.Popen(words, stdin=theirs.fileno(), stderr=subprocess.PIPE) as process:
        theirs.close()
        try:
            yield ours, process
        finally:
            process.kill()


def _ask(ours: socket.socket, out: Path, *argv: str, descriptors: int = 2) -> None:
    """Send what enter.py sends."""
    request = json.dumps({"argv": argv, "cwd": "/", "env": {"PATH": os.defpath}}).encode()
    with out.open("wb") as file:
        sent = array.array("i", [file.fileno()] * descriptors)
        ours.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    ours.sendall(request)


def _answer(folder: Path, *argv: str, limit_s: float = TIMEOUT_S) -> dict[str, Any]:
    """What the inside answers; the command's output is in ``folder / "out"``."""
    with _served(folder, limit_s) as (ours, process):
        _ask(ours, folder / "out", *argv)
        answer = b"".join(iter(lambda: ours.recv(4096), b""))
        assert process.wait(TIMEOUT_S) == 0
    return dict(json.loads(answer))


def test_a_script_writes_straight_to_who_asked_and_its_exit_code_is_answered(tmp_path: Path) -> None:
    assert _answer(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3") == {"code": 3, "note": ""}
    assert (tmp_path / "out").read_text() == "out\nerr\n"


@pytest.mark.parametrize(
    ("argv", "code", "note"),
    [
        (["sh", "-c", "kill -9 $$"], -9, "memory"),
        (["sleep", "5"], 124, "stopped after 0.5 s"),
        (["/no/such/program"], 126, "cannot start"),
    ],
)
def test_why_a_script_ended_early_is_answered(tmp_path: Path, argv: list[str], code: int, note: str) -> None:
    answer = _answer(tmp_path, *argv, limit_s=0.5 if argv[0] == "sleep" else TIMEOUT_S)
    assert answer["code"] == code
    assert note in answer["note"]


def test_the_sandbox_ends_when_nobody_waits_any_more(tmp_path: Path) -> None:
    with _served(tmp_path, limit_s=600) as (ours, process):
        _ask(ours, tmp_path / "out", "sleep", "10")
        ours.close()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("descriptors", [1, 0])
def test_what_brings_no_place_for_output_is_no_request(tmp_path: Path, descriptors: int) -> None:
    with _served(tmp_path) as (ours, process):
        _ask(ours, tmp_path / "out", "touch", str(tmp_path / "ran"), descriptors=descriptors)
        _, output = process.communicate(timeout=TIMEOUT_S)
    assert output == b"not a request\n"
    assert not (tmp_path / "ran").exists()


def test_a_request_that_is_too_long_is_none(tmp_path: Path) -> None:
    with _served(tmp_path) as (ours, process):
        sent = array.array("i", [0, 0])
        ours.sendmsg([(5 << 20).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
        ours.shutdown(socket.SHUT_WR)
        _, output = process.communicate(timeout=TIMEOUT_S)
    assert output == b"not a request\n"


def _enter(folder: Path, answer: bytes | None) -> subprocess.CompletedProcess[str]:
    """Have a script run in a sandbox that answers so; ``None``: there is no sandbox."""
    path = folder / "sandbox.socket"
    program = folder / "enter.py"
    source = verbatim(ROLE, "enter.py")
    assert source.count('"/run/hermes-sandbox.socket"') == 1
    program.write_text(source.replace('"/run/hermes-sandbox.socket"', repr(str(path))))
    words = [sys.executable, str(program), "python3", "script.py"]
    with socket.socket(socket.AF_UNIX) as listener:
        if answer is not None:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(TIMEOUT_S)
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if answer is not None:
                _take_request(listener, answer)
            out, err = process.communicate(timeout=TIMEOUT_S)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _take_request(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 2)
        request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        assert json.loads(request)["argv"] == ["python3", "script.py"]
        os.write(descriptors[0], b"to stdout")
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(answer)


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (b'{"code": 3, "note": ""}', 3, ""),
        (b'{"code": -15, "note": "killed"}', 143, "killed\n"),
        (b"", 137, "The script was stopped: it used more time or memory than the sandbox allows.\n"),
    ],
)
def test_a_script_ends_as_it_ended_in_the_sandbox(tmp_path: Path, answer: bytes, code: int, message: str) -> None:
    done = _enter(tmp_path, answer)
    assert (done.returncode, done.stdout, done.stderr) == (code, "to stdout", message)


def test_without_a_sandbox_no_script_runs(tmp_path: Path) -> None:
    done = _enter(tmp_path, None)
    assert (done.returncode, done.stdout) == (70, "")
    assert "The sandbox is not available" in done.stderr
