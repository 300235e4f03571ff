"""``hermesops`` in forks of a process that has loaded it: each a process of its own, without the second of loading."""

import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.command import Command, Ran

_PLUGIN = "pulumi-resource-justavps"
_ROOT = Path(__file__).resolve().parents[2]


def load() -> None:
    """Load what commands load. Nothing of it may start a thread: who forks has one."""
    import grpc  # noqa: F401, PLC0415 - only who forks loads all this
    import pulumi.runtime.proto.provider_pb2_grpc  # noqa: F401, PLC0415 - as above

    import hermesops.app.cells  # noqa: PLC0415 - as above
    import hermesops.app.drift  # noqa: PLC0415 - as above
    import hermesops.app.session  # noqa: PLC0415 - as above
    import hermesops.channel.agent  # noqa: PLC0415 - as above
    import hermesops.cli.root  # noqa: PLC0415 - as above
    import hermesops.engine.embedded.engine  # noqa: PLC0415 - as above
    import hermesops.justavps.proxy  # noqa: PLC0415 - as above
    import hermesops.stacks.fleet  # noqa: F401, PLC0415 - as above


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
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                self._be(words, out.fileno(), err.fileno())
            code = _end_of(child, timeout_s)
            said = [_text(file) for file in (out, err)]
        ran = Ran(words, code, said[0], said[1], time.monotonic() - began)
        self.said.append(ran)
        return ran

    def ok(self, *words: str) -> Ran:
        """Run a command that must work."""
        ran = self.run(*words)
        assert ran.exit_code == 0, str(ran)
        return ran

    def _be(self, words: Sequence[str], out: int, err: int) -> None:
        """Be the command; does not return."""
        code = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            for name in [name for name in os.environ if name.startswith("HERMESOPS_")]:  # noqa: TID251 - as a shell does
                del os.environ[name]  # noqa: TID251 - as above
            os.environ.update(self.command.environ, PYTHONPATH=str(_ROOT))  # noqa: TID251 - as above
            sys.argv = ["hermesops", *words]
            sys.executable = str(self._plugin_folder() / "python")  # the engine looks for plugins beside it
            from hermesops.cli.main import main  # noqa: PLC0415 - in the child, which ends here

            code = main()
        except BaseException:  # noqa: BLE001 - nothing of a child may come back into the test
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

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


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
