"""A Python process that has imported the libraries of a run of pytest, and forks for each run.

A run of one short test spends two thirds of its processor seconds on imports of libraries, the same each time. Modules
of the checkout are never imported before the fork: each run reads them as they stand then.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_LIBRARIES = ("/site-packages/", f"{sys.base_prefix}/")
"""Where modules lie that no planted bug changes."""


class WarmPytest:
    """Runs of pytest in one folder, each in a fork of one warm process."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Start the warm process.

        Args:
            folder: Working directory of each run.
            environment: Variables of each run.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def run(self, arguments: Sequence[str], output: Path, limit_s: float) -> int | None:
        """Run pytest once; nothing of its process group outlives it.

        Args:
            arguments: Of pytest's command line.
            output: File for standard output and errors; beside it, with the suffix ``.libraries``, a run that ends by
                itself leaves the names of the modules that it loaded and that are no part of the checkout, as JSON.
            limit_s: Seconds after which the run is killed.

        Returns:
            The exit code, negative for the signal that ended it; ``None`` where it did not end in time.
        """
        answer = self._ask({"arguments": list(arguments), "output": str(output), "limit_s": limit_s})
        code: int | None = answer["code"]
        return code

    def load(self, libraries: Sequence[str]) -> None:
        """Import these modules, for all runs to come; those that cannot be imported are left out."""
        self._ask({"libraries": list(libraries)})

    def end(self) -> None:
        """End the warm process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer


def _serve() -> None:
    """Answer each request on standard input with a line on standard output, until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {}
        if "libraries" in request:
            _import_all(request["libraries"])
        else:
            answer = {"code": _forked(request["arguments"], Path(request["output"]), request["limit_s"])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        # A library may have put a module there that only it can make.
        with suppress(Exception):
            import_module(name)
    if threading.active_count() > 1:
        sys.exit(f"a library started threads, which no fork has: {threading.enumerate()}")
    gc.freeze()  # a fork shares what is frozen instead of copying it while collecting


def _forked(arguments: Sequence[str], output: Path, limit_s: float) -> int | None:
    pid = os.fork()
    if not pid:
        _run(arguments, output)
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = bool(poll.poll(limit_s * 1000))
        # The leader is not reaped yet, so the group's number is still its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run(arguments: Sequence[str], output: Path) -> None:
    """Be one run of pytest, in a process group of its own; never returns."""
    os.setsid()
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        source = os.open(path, flags, 0o600)
        os.dup2(source, descriptor)
        os.close(source)
    os.dup2(1, 2)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.argv = ["pytest", *arguments]
    code = int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]))
    output.with_suffix(".libraries").write_text(json.dumps(_libraries()), encoding="utf-8")
    sys.exit(code)


def _libraries() -> list[str]:
    """Names of the loaded modules that are no part of the checkout, in the order in which their imports began.

    Another order is no import that anybody makes: ``_asyncio`` before ``asyncio`` leaves half of it in Python.
    """
    loaded = [(name, str(getattr(module, "__file__", None) or "")) for name, module in list(sys.modules.items())]
    return [name for name, file in loaded if name != "__main__" and any(place in file for place in _LIBRARIES)]


if __name__ == "__main__":
    _serve()
