"""Runs the system's own tools (ip, nft, mount, mkfs …), turns their failures into our errors, and waits on threads."""

import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hermesops.base import child_environment
from hermesops.base.waiting import pause_blocking
from hermesops.errors import RefusedError, UnavailableError


def run(
    arguments: Sequence[str], *, stdin: str | None = None, cwd: Path | None = None, accept: Collection[int] = (0,)
) -> str:
    """Run one tool to its end; return its output.

    Args:
        arguments: The command; never a shell.
        stdin: Text for its standard input; empty by default.
        accept: Exit codes that are success.

    Raises:
        RefusedError: The tool is not installed.
        UnavailableError: It failed; the message carries its last line.
    """
    try:
        done = subprocess.run(
            list(arguments),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cwd,
            check=False,
            env=child_environment.made(child_environment.NETWORK),
        )
    except FileNotFoundError as error:
        raise RefusedError(
            f"local machines need the command {arguments[0]}",
            hint="apt install systemd-container mmdebstrap nftables iproute2 e2fsprogs",
        ) from error
    if done.returncode not in accept:
        message = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise UnavailableError(f"{' '.join(arguments[:3])} failed with {done.returncode}: {message}")
    return done.stdout


def succeeds(arguments: Sequence[str]) -> bool:
    """Run a tool and drop its output; return whether its exit code is 0."""
    try:
        run(arguments)
    except UnavailableError:
        return False
    return True


def holds_within(check: Callable[[], bool], limit_s: float, *, every_s: float) -> bool:
    """Wait until a check holds; false when it does not within the limit."""
    waited = 0.0
    while not check():
        if waited >= limit_s:
            return False
        pause_blocking(every_s)
        waited += every_s
    return True
