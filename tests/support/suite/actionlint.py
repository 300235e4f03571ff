"""actionlint, built from locked source once and kept between runs; as a program it checks the files it is given."""

import subprocess
import sys
from pathlib import Path

from tests.support.real.go_programs import ACTIONLINT


def actionlint() -> Path:
    """The program: half a minute where it is not there yet."""
    return ACTIONLINT.built(narrate)


def narrate(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(subprocess.run([actionlint(), "-color=false", *sys.argv[1:]], check=False).returncode)
