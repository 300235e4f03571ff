"""Runs the system's own tools as root, in a fixed environment."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermesops.wire.errors import NotReadyError

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
"""Of the system's own tools, which need no more."""


def run(
    words: Sequence[str | Path],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
    umask: int = -1,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.CompletedProcess[bytes]:
    """Run a tool to its end, with any exit code.

    Args:
        timeout_s: Seconds after which it is killed.
        pass_fds: Descriptors that it inherits.
        umask: Umask of the tool; -1 for ours.
        environment: All of its variables.

    Raises:
        NotReadyError: It is not installed, cannot be started, or did not end in time.
    """
    name = Path(words[0]).name
    try:
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=timeout_s,
            cwd="/",
            pass_fds=pass_fds,
            umask=umask,
            env=environment,
        )
    except FileNotFoundError as error:
        raise NotReadyError(f"{name} is not installed: apply the roles of this machine again") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"{name}: {error}") from error


def output(words: Sequence[str | Path], *, timeout_s: float, stdin: bytes = b"") -> str:
    """Run a tool; return its output.

    Raises:
        NotReadyError: It cannot be run, or failed; its last line on stderr is repeated.
    """
    done = run(words, timeout_s=timeout_s, stdin=stdin)
    if done.returncode:
        raise NotReadyError(f"{' '.join(map(str, words[:2]))}: {last_line(done)}")
    return done.stdout.decode(errors="replace")


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line of a tool's stderr, cut at 300 characters; without one its exit code."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit {done.returncode}"
