"""How a script for a machine's shell is given its arguments. Pure."""

import shlex


def script_command(script: str, *arguments: str) -> str:
    """The command that runs a script for ``sh`` with these as ``$1``, ``$2`` and so on."""
    return shlex.join(["sh", "-c", script, "sh", *arguments])
