"""``python -m hermesops``: the command line without its console script."""

import sys

from hermesops.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
