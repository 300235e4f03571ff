"""Resolves the set of packages of an agent with uv, on the package index of this computer.

It must not know where an index is: uv's own settings say so.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError

_RESOLVE_S = 300.0
_NO_ANSWER = ("error sending request", "connection", "timed out", "dns error", "failed to fetch")


class Resolver:
    """Resolves with uv, in a process of its own.

    Args:
        environ: HOME, PATH, and what sets up proxies, indexes and authorities.
        glibc: The newest 2.x that a wheel may ask for.
    """

    def __init__(self, environ: Mapping[str, str], *, glibc: int) -> None:
        self._environ = dict(environ)
        self._platform = f"x86_64-manylinux_2_{glibc}"

    def program(self) -> Path:
        """The program uv of this computer."""
        from uv import find_uv_bin  # noqa: PLC0415 - of an extra: who builds a simulated release resolves nothing

        return Path(find_uv_bin())

    def resolve(self, requirement: str, python: str, *, wheels: Path | None = None) -> str:
        """The set as ``uv pip compile --generate-hashes`` prints it: wheels only, so no machine needs a compiler.

        ``wheels`` is a folder of wheels that the index lacks.

        Raises:
            RefusedError: There is no such set.
            UnavailableError: The index does not answer.
        """
        command = [
            str(self.program()),
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--generate-hashes",
        ]
        command += ["--only-binary=:all:", f"--python-version={python}", f"--python-platform={self._platform}"]
        command += [f"--find-links={wheels}"] if wheels else []
        try:
            done = subprocess.run(
                [*command, "-"],
                env=self._environ,
                input=f"{requirement}\n",
                capture_output=True,
                text=True,
                timeout=_RESOLVE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as cause:
            raise UnavailableError(f"uv did not resolve {requirement} within {_RESOLVE_S:g} s") from cause
        if done.returncode == 0:
            return done.stdout
        problem = " ".join(done.stderr.split())
        if any(words in problem.lower() for words in _NO_ANSWER):
            raise UnavailableError(f"uv could not ask the package index for {requirement}: {problem[:300]}")
        raise RefusedError(
            f"there is no set of packages for {requirement} on Python {python}: {problem[:300]}",
            hint="pip index versions hermes-agent lists the versions on the package index",
        )
