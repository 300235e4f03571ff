"""A command of a step: what it is told, how much of its output is kept, and how Ctrl-C ends it."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hermesops.observability.runbook.command import LONGEST_OUTPUT, run_command


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Lets another Python program take the place of hermesops."""

    def program(source: str) -> list[str]:
        folder = tmp_path_factory.mktemp("child")
        (folder / "python").write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{source}\n")
        (folder / "python").chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(folder / "python"))
        return []

    return program


def test_a_command_is_told_its_environment_and_nothing_else(child: Callable[[str], list[str]]) -> None:
    shown = child(
        "print(sys.argv[1:], sorted(os.environ), sys.stdin.read(), flush=True); sys.stderr.write('oh'); exit(3)"
    )
    ended = asyncio.run(
        run_command(["fleet", "status"], environment="staging", variables={"A": "b"}, show=shown.append)
    )
    assert ended.exit_code == 3
    assert ended.output.startswith("['-m', 'hermesops', '--env', 'staging', 'fleet', 'status'] ['A'")
    assert ended.output.endswith("oh")
    assert "".join(shown) == ended.output


def test_output_has_a_bound_and_the_command_is_not_held_up(child: Callable[[str], list[str]]) -> None:
    shown = child("sys.stdout.buffer.write(b'\\xff' * 3_000_000)")
    ended = asyncio.run(run_command([], environment="local", variables={}, show=shown.append))
    assert (ended.exit_code, ended.is_cut, len(ended.output)) == (0, True, LONGEST_OUTPUT)
    assert len("".join(shown)) == LONGEST_OUTPUT


def test_ctrl_c_reaches_the_command_once_and_waits_for_it(child: Callable[[str], list[str]]) -> None:
    shown = child(
        "signal.signal(signal.SIGINT, lambda *_: (print('cleaned up', flush=True), exit(130)))\n"
        "print('begun', flush=True)\ntime.sleep(60)"
    )

    def show(text: str) -> None:
        shown.append(text)
        if "begun" in text:
            threading.Timer(0.1, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_command([], environment="local", variables={}, show=show))
    assert "".join(shown) == "begun\ncleaned up\n"


def test_ctrl_c_while_the_command_starts_leaves_none_behind(
    child: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, begun, start = child("time.sleep(60)"), [], subprocess.Popen.__init__

    def interrupted(process: subprocess.Popen[bytes], *words: Any, **options: Any) -> None:  # noqa: ANN401 - as given
        start(process, *words, **options)
        begun.append(process)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_command([], environment="local", variables={}, show=shown.append))
    assert [process.returncode for process in begun] == [-signal.SIGKILL]
