"""actionlint, built from locked source once and kept between runs; as a program it checks the files it is given."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from hermesops.assets import folder
from hermesops.localcloud.world.go_tools import GoTools
from tests.support.worlds.converged import shared_cache

PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"


def actionlint() -> Path:
    """The program: half a minute where it is not there yet."""
    environ = dict(os.environ)  # noqa: TID251 - a build needs HOME, PATH and proxies, as the command passes them
    tools = GoTools(folder("images") / "tools" / "actionlint", shared_cache(), environ, narrate)
    return asyncio.run(tools.build(PACKAGE))


def narrate(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(subprocess.run([actionlint(), "-color=false", *sys.argv[1:]], check=False).returncode)
