"""Installation archive of the platform's model router: the wheels that its role locks, so that no index is needed."""

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.machines.image.packages.download import Pip

PYTHON = "3.11"
"""Of Debian 12, which the platform's hosts run."""

_KEPT = 2
"""Archives that stay in the cache."""


def make(lock: Path, downloads: Pip, cache: Path, report: Callable[[str], None]) -> Path:
    """Make the archive, or find it in the cache. Blocks, for a minute where wheels have to be fetched.

    Args:
        lock: ``files/requirements.txt`` of role ``hermes_platform_llm_router``.

    Raises:
        RefusedError: A wheel does not have the hash it is locked to.
        UnavailableError: The package index does not answer or lacks one.
    """
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"litellm-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}.tar"
    if not target.exists():
        report("fetching the wheels of LiteLLM for the platform's model router")
        with scratch_folder(cache, ".packing-router-") as scratch:
            wheels, packed = scratch / "wheels", scratch / "packed"
            downloads.wheels(lock, wheels, python=PYTHON)
            with tarfile.open(packed, "w") as archive:
                for file in sorted(wheels.iterdir()):
                    archive.add(file, f"wheels/{file.name}", filter=_plain)
            packed.replace(target)
    target.touch()
    for old in sorted(cache.glob("litellm-*.tar"), key=lambda file: file.stat().st_mtime, reverse=True)[_KEPT:]:
        old.unlink(missing_ok=True)
    return target


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry
