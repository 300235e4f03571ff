"""The command's entry point.

Kept light: ``--version`` imports nothing but the standard library, and no command imports another's libraries.
"""

import gc
import os
import sys

from hermesops import __version__
from hermesops.cli import interrupts
from hermesops.cli.printing import streams
from hermesops.wire import core_dump

_UNAVAILABLE = 4
"""Exit code of ``UnavailableError`` in ``hermesops.errors``, which takes long to import."""


def main() -> int:
    """Run the command line.

    Returns:
        The exit code (see ``hermesops.errors``). A bug keeps its traceback and exits 1.
    """
    streams.open_all()
    interrupts.end_at_once()
    code = _run()
    if problem := streams.close():
        print(f"error: stdout could not be written: {problem}", file=sys.stderr)
        print("hint: make room where stdout goes, or send it elsewhere, and repeat the command", file=sys.stderr)
        return code or _UNAVAILABLE
    return code


def _run() -> int:
    core_dump.forbid_small()
    if sys.argv[1:] == ["--version"]:
        print(f"hermesops {__version__}")
        return 0
    # Imported modules stay: collecting garbage among them takes a tenth of a short command. ``context.run`` enables it.
    gc.disable()
    core_dump.forbid()
    # Libraries would write there what opens TLS sessions, which carry keys of the fleet, or fail where they cannot.
    os.environ.pop("SSLKEYLOGFILE", None)  # noqa: TID251 - taken away before anything reads it
    from hermesops.cli import root

    return root.run()


if __name__ == "__main__":
    sys.exit(main())
