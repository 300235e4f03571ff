"""Operators of a world, each with a key of their own."""

import subprocess
from pathlib import Path

from tests.support.real.commands.command import Command


def key_of(folder: Path, name: str) -> Path:
    """A new SSH key; its public half is beside it."""
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
    return key


def two_operators(world: Command, folder: Path) -> tuple[Command, Command]:
    """Two of a world in which what goes beyond the limits is wanted by two: ada@example.net and bob@example.net."""
    lines, keys = [], []
    for name in ("ada", "bob"):
        key = key_of(folder, name)
        lines.append(f'{name}@example.net namespaces="hermesops-*" {key.with_suffix(".pub").read_text()}')
        keys.append(str(key))
    (folder / "allowed").write_text("".join(lines))
    strict = {
        "HERMESOPS_ALLOWED_SIGNERS": str(folder / "allowed"),
        "HERMESOPS_APPROVALS": "required",
        "HERMESOPS_OPERATORS": "verified",
    }
    ada, bob = (world.with_variables(HERMESOPS_OPERATOR_KEY=key, **strict) for key in keys)
    return ada, bob
