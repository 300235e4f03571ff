"""The command's entry point.

Kept light: ``--version`` imports nothing but the standard library, and no command imports another's libraries.
"""

import gc
import os
import sys

from hermesops import __version__
from hermesops.cli import streams
from hermesops.node.system import core_dump


def main() -> int:
    """Run the command line.

    Returns:
        The exit code (see ``hermesops.errors``). A bug keeps its traceback and exits 1.
    """
    streams.open_closed()
    try:
        return _run()
    finally:
        streams.let_go()


def _run() -> int:
    core_dump.forbid_small()
    if sys.argv[1:] == ["--version"]:
        try:  # noqa: SIM105 - contextlib takes longer to import than all else of this command
            print(f"hermesops {__version__}")
        except BrokenPipeError:
            pass
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
