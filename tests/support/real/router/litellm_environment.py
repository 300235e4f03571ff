"""A Python environment with LiteLLM, as the role locks it, made once in the cache that test runs share."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hermesops.base import assets
from tests.support.suite.kept import shared_cache

ROLE = "hermes_platform_llm_router"
_INSTALL_S = 900.0


def place() -> Path:
    """Its folder; the file ``complete`` in it says that it is whole."""
    lock = assets.folder("roles") / ROLE / "files/requirements.txt"
    return shared_cache() / f"litellm-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"


def python() -> Path | None:
    """The Python of the environment, made first where the cache lacks it; ``None`` without uv."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.defpath}")
    if uv is None:
        return None
    shared_cache().mkdir(parents=True, exist_ok=True)
    with (shared_cache() / "litellm.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (place() / "complete").exists():
            _make(uv, place())
    return place() / "bin/python"


def _make(uv: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    installing = ("pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "--python", folder / "bin/python")
    lock = assets.folder("roles") / ROLE / "files/requirements.txt"
    for words in (("venv", "--quiet", "--python", "3.11", folder), (*installing, lock)):
        subprocess.run([uv, *words], check=True, timeout=_INSTALL_S)
    (folder / "complete").touch()
