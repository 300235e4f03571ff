"""``hermesops`` in forks of a process that has loaded it: each a process of its own, without the second of loading."""

import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tests.support.real.commands.command import Command, Ran
from tests.support.real.commands.loaded import COMMAND

_PLUGIN = "pulumi-resource-justavps"
_ROOT = Path(__file__).resolve().parents[4]


def be(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], out: Path, err: Path, *, executable: str = ""
) -> NoReturn:
    """Be the ``main`` of a module in a fork that was just made, in a session of its own.

    Args:
        module: Its name.
        arguments: Of its command line.
        environ: All of its environment.
        out: Where its stdout goes.
        err: Where its stderr goes.
        executable: What it takes for its Python.
    """
    code = 1
    try:
        os.setsid()
        for descriptor, name, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(name, flags, 0o600), descriptor)
        os.environ.clear()  # noqa: TID251 - as an exec does
        os.environ.update(environ, PYTHONPATH=str(_ROOT))  # noqa: TID251 - as above
        sys.argv = ["hermesops" if module == COMMAND else module, *arguments]
        sys.executable = executable or sys.executable
        code = import_module(module).main()
    except BaseException:  # noqa: BLE001 - nothing of a child may come back into who forked it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass(frozen=True)
class Forked:
    """Runs commands with one home.

    Attributes:
        command: Whose home and variables they get.
        plugin: Module that is their plugin in place of ours.
        said: What was run.
    """

    command: Command
    plugin: str
    said: list[Ran] = field(default_factory=list)

    def run(self, *words: str, timeout_s: float = 300) -> Ran:
        """Run a command to its end."""
        began = time.monotonic()
        python = str(self._plugin_folder() / "python")  # the engine looks for plugins beside it
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            child = os.fork()
            if child == 0:
                be(COMMAND, words, self.command.environ, out, err, executable=python)
            code = _end_of(child, timeout_s)
            texts = [file.read_text(encoding="utf-8") for file in (out, err)]
        ran = Ran(words, code, texts[0], texts[1], time.monotonic() - began)
        self.said.append(ran)
        return ran

    def ok(self, *words: str) -> Ran:
        """Run a command that must work."""
        ran = self.run(*words)
        assert ran.exit_code == 0, str(ran)
        return ran

    def _plugin_folder(self) -> Path:
        folder = self.command.home / "plugin"
        if not folder.exists():
            folder.mkdir()
            for name, words in (("python", ""), (_PLUGIN, f" -m {self.plugin}")):
                (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
                (folder / name).chmod(0o755)
        return folder


def _end_of(child: int, timeout_s: float) -> int:
    watched = os.pidfd_open(child)
    try:
        if not select.select([watched], [], [], timeout_s)[0]:
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(watched)
