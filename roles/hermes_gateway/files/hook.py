"""Read by every slot's interpreter before any script: sends those of the code-execution tool into the sandbox.

It runs inside the agent's interpreter, whose import path others can fill, so it imports nothing that is not loaded yet.
An exception ends the interpreter (hermes-sandbox.pth): no sandbox, no script.
"""

import os
import sys

with open("/proc/self/cgroup") as cgroup:  # noqa: PTH123 - pathlib would be an import
    inside = "/hermes-sandbox@" in cgroup.read()

if not inside:
    # The agent may set environment variables, but nobody except root can put a process into a unit's cgroup.
    os.execv(  # noqa: S606 - replaces this process on purpose
        "/usr/bin/python3",
        ["python3", "-I", "-S", "/opt/hermes/sandbox/enter.py", sys.executable, *sys.orig_argv[1:]],
    )
