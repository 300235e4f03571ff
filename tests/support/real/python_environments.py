"""Python environments as roles and images lock them, each made once in the cache that test runs share."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hermesops.base import assets
from tests.support.suite.kept import shared_cache

_INSTALL_S = 900.0


@dataclass(frozen=True)
class LockedEnvironment:
    """An environment of Python 3.11.

    Attributes:
        lock: Requirements with hashes, below the folder of an asset.
    """

    name: str
    asset: assets.Folder
    lock: str

    @property
    def place(self) -> Path:
        """Its folder; the file ``complete`` in it says that it is whole."""
        digest = hashlib.sha256(self._requirements.read_bytes()).hexdigest()
        return shared_cache() / f"{self.name}-{digest[:16]}"

    @property
    def is_there(self) -> bool:
        """Whether it is whole."""
        return (self.place / "complete").exists()

    def python(self) -> Path | None:
        """The Python of the environment, made first where the cache lacks it; ``None`` without uv."""
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.defpath}")
        if uv is None:
            return None
        shared_cache().mkdir(parents=True, exist_ok=True)
        with (shared_cache() / f"{self.name}.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if not self.is_there:
                self._make(uv)
        return self.place / "bin/python"

    def _make(self, uv: str) -> None:
        folder = self.place
        shutil.rmtree(folder, ignore_errors=True)
        syncing = ("pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode")
        for words in (
            ("venv", "--quiet", "--python", "3.11", folder),
            (*syncing, "--python", folder / "bin/python", self._requirements),
        ):
            subprocess.run([uv, *words], check=True, timeout=_INSTALL_S)
        (folder / "complete").touch()

    @property
    def _requirements(self) -> Path:
        return assets.folder(self.asset) / self.lock


LITELLM = LockedEnvironment("litellm", "roles", "hermes_platform_llm_router/files/requirements.txt")
AGENT = LockedEnvironment("agent", "images", "hermes-base/locks/hermes-agent-py311.txt")
"""hermes-agent 0.19.0 with the extras that machines have."""
