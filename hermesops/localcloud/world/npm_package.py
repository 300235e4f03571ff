"""SQLite's source for local worlds: the package of it on npm's registry, which npm itself finds and fetches."""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hermesops.errors import UnavailableError

SQLITE = "better-sqlite3@12.11.1"
"""Brings SQLite 3.53.2 as ``deps/sqlite3/sqlite3.c``."""

SQLITE_SHA256 = "ebf0ed75a7a59dbcb3b24bbd014ef49d9f15bc328e4adcbf516f2a8fadfa2835"
"""Of the package's archive."""

_FETCHED_S = 300.0


def fetch(package: str, environ: Mapping[str, str]) -> bytes:
    """Read the archive of a package; nothing of it is run.

    Args:
        package: ``PACKAGE@VERSION``.
        environ: HOME, PATH, and what sets up npm.

    Raises:
        UnavailableError: npm is missing, or its registry does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ("npm", "pack", "--ignore-scripts", f"--pack-destination={folder}", package)
        try:
            done = subprocess.run(
                words, cwd=folder, env=environ, capture_output=True, text=True, timeout=_FETCHED_S, check=False
            )
        except FileNotFoundError:
            raise UnavailableError("npm is not installed") from None
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"npm did not fetch {package} within {_FETCHED_S:g} s") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            raise UnavailableError(f"npm could not fetch {package}: {done.stderr.strip()[-200:]}")
        return archives[0].read_bytes()
