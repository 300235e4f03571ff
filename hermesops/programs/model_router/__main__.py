"""The program hermes-router. It runs with the Python of an environment that holds LiteLLM."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from hermesops.errors import HermesError
from hermesops.programs.model_router.configuration import read
from hermesops.programs.model_router.server import serve


def main() -> int:
    """Serve until a signal ends the process; return the exit code."""
    parser = argparse.ArgumentParser(prog="hermes-router", description=__doc__)
    parser.add_argument("settings", type=Path, help="settings file, JSON")
    parser.add_argument("--check", action="store_true", help="only read the settings file")
    options = parser.parse_args()
    try:
        settings = read(options.settings)
        if options.check:
            return 0
        of_unit = os.environ.get("RUNTIME_DIRECTORY")  # noqa: TID251 - systemd's, not a setting
        with tempfile.TemporaryDirectory(dir=of_unit) as folder:
            asyncio.run(serve(settings, Path(folder)))
    except HermesError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
