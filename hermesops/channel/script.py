"""Passes arguments to a script for a machine's shell. Pure."""

import shlex


def script_command(script: str, *arguments: str) -> str:
    """The command line that runs a script in ``sh`` with these as ``$1``, ``$2`` and so on."""
    return shlex.join(["sh", "-c", script, "sh", *arguments])
