"""Runs hermesops in one shell after another: a fork of this process, which has imported the program, for each.

Reads a list of ``[variables, words]`` as JSON from stdin, and writes a list of ``[exit code, stdout, stderr]``.
"""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermesops.cli.main import main as hermesops

_WARM = (
    "hermesops.cli.root",
    "hermesops.cli.commands.fleet",
    "hermesops.cli.commands.doctor",
    "hermesops.app",
    "httpx",
)


def main() -> None:
    """Run each and write what it came to."""
    for name in _WARM:
        importlib.import_module(name)
    json.dump([_ran(variables, words) for variables, words in json.load(sys.stdin)], sys.stdout)


def _ran(variables: Mapping[str, str], words: Sequence[str]) -> tuple[int, str, str]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        child = os.fork()
        if child == 0:
            for number, file in enumerate(files, start=1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
            os.environ.update(variables)  # noqa: TID251 - a shell of its own
            sys.argv = ["hermesops", *words]
            code = 1
            try:
                code = hermesops()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), files[0].read_text(), files[1].read_text()


if __name__ == "__main__":
    main()
