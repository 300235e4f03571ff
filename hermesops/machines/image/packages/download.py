"""Fetches packages from the package index of this computer, each checked against a hash; wheels by pip.

It must not know where an index is: pip's own settings say so.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermesops.base.extras import Extra, require
from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.image.packages.package_index import PackageIndex

_DOWNLOAD_S = 900.0
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_OLDEST_GLIBC = 5
NEWEST_GLIBC = 36
"""Of 2.x, that a wheel may ask for: Debian 12 has it and is the oldest base our machines have."""


class Pip:
    """Downloads with pip, in a process of its own.

    Args:
        environ: HOME, PATH, and what sets up proxies, indexes and authorities.
        cache: Folder for what was fetched: each file as ``wheels-3.11/SHA256/NAME`` or ``sources/SHA256/NAME``.
    """

    def __init__(self, environ: Mapping[str, str], cache: Path) -> None:
        self._environ = dict(environ)
        self._cache = cache

    def wheels(self, requirements: Path, folder: Path, *, python: str) -> None:
        """Put the wheels that ``requirements`` locks into ``folder``, for x86_64 Linux and that Python.

        Raises:
            RefusedError: A file does not have the hash it is locked to.
            UnavailableError: The index does not answer or lacks one.
        """
        digits = python.replace(".", "")
        names = ["manylinux1", "manylinux2010", "manylinux2014"]
        names += [f"manylinux_2_{minor}" for minor in range(_OLDEST_GLIBC, NEWEST_GLIBC + 1)]
        tags = [f"--platform={name}_x86_64" for name in names]
        tags += [f"--abi={abi}" for abi in (f"cp{digits}", "abi3", "none")]
        options = ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *tags]
        missing = self._take_cached(f"wheels-{python}", requirements, folder)
        if missing:
            self._download([*options, f"--dest={folder}"], requirements, missing)
            self._keep(f"wheels-{python}", folder)

    def source(self, requirements: Path, folder: Path) -> None:
        """Put the source archive that ``requirements`` locks into ``folder``. Not by pip, which would run it.

        Raises:
            RefusedError: The index offers another file than the one that is locked.
            UnavailableError: The index does not answer or lacks it.
        """
        if self._take_cached("sources", requirements, folder) or not any(folder.iterdir()):
            PackageIndex(self._environ).source(requirements, folder)
            self._keep("sources", folder)

    def _take_cached(self, kind: str, requirements: Path, folder: Path) -> list[str]:
        """Copy cached packages into a folder; returns the missing requirements, a line each."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = requirements.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        pins = [line for line in lines if line.strip() and not line.startswith("#")]
        return [line for line in pins if not self._take(kind, _HASH.findall(line), folder)]

    def _take(self, kind: str, hashes: Sequence[str], folder: Path) -> bool:
        for digest in hashes:
            for file in (self._cache / kind / digest).glob("*"):
                if _sha256(file) == digest:
                    shutil.copyfile(file, folder / file.name)
                    return True
        return False

    def _keep(self, kind: str, folder: Path) -> None:
        for file in folder.iterdir():
            place = self._cache / kind / _sha256(file)
            place.mkdir(parents=True, exist_ok=True)
            with scratch_folder(self._cache, ".copying-") as scratch:  # others read the cache meanwhile
                shutil.copyfile(file, scratch / file.name).replace(place / file.name)

    def _download(self, options: Sequence[str], requirements: Path, missing: Sequence[str]) -> None:
        require(Extra.BUILD, "fetching wheels")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--require-hashes"]
        command += [*options, "--requirement=/dev/stdin"]
        try:
            done = subprocess.run(
                command,
                env=self._environ,
                input="\n".join(missing),
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_S,
                check=False,
            )
        except subprocess.TimeoutExpired as cause:
            raise UnavailableError(f"pip did not fetch {requirements.name} within {_DOWNLOAD_S:g} s") from cause
        if done.returncode == 0:
            return
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise RefusedError(
                f"the package index offers something else than {requirements} is locked to",
                hint="do not build from this index; compare it with another one",
            )
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise UnavailableError(
            f"pip could not fetch the packages of {requirements.name}: {lines[-1] if lines else 'no reason given'}",
            hint="check the index pip is set up for: pip config list",
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
