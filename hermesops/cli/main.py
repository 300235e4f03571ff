"""Assembles the command groups and turns errors into exit codes.

Kept light: ``--version`` imports nothing but the standard library, and no command imports another's libraries.
"""

import sys

from hermesops import __version__


def main() -> int:
    """Run the command line; the console script's entry point.

    Returns:
        The exit code (see ``hermesops.errors``). A bug keeps its traceback and exits 1.
    """
    if sys.argv[1:] == ["--version"]:
        print(f"hermesops {__version__}")
        return 0
    from hermesops.cli import root

    return root.run()


if __name__ == "__main__":
    sys.exit(main())
