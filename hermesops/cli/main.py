"""Assembles the command groups and turns errors into exit codes.

Kept light: ``--version`` imports nothing but the standard library, and no command imports another's libraries.
"""

import os
import sys
from contextlib import suppress

from hermesops import __version__


def main() -> int:
    """Run the command line; the console script's entry point.

    Returns:
        The exit code (see ``hermesops.errors``). A bug keeps its traceback and exits 1.
    """
    _open_closed_streams()
    if sys.argv[1:] == ["--version"]:
        with suppress(BrokenPipeError):
            print(f"hermesops {__version__}", flush=True)
        return 0
    from hermesops.cli import root

    return root.run()


def _open_closed_streams() -> None:
    """Give a standard stream that the caller closed (``>&-``, some CI and cron) a place that takes everything.

    Otherwise Python has no such stream, and the next file or connection would get its number and our output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above


if __name__ == "__main__":
    sys.exit(main())
