"""Installation archive of hermesops for the platform's host: wheels, their lock and uv, so that no index is needed.

It is made once for each version of hermesops, and kept in the cache.
"""

import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.errors import BrokenInvariantError
from hermesops.machines.image.bundles import own_wheel
from hermesops.machines.image.packages.download import Pip

PYTHON = "3.11"
"""Of Debian 12, which the platform's hosts run."""

_KEY_LENGTH = 16
_KEPT = 3
"""Bundles that stay in the cache."""


@dataclass(frozen=True)
class ControlBundle:
    """An archive of wheels.

    Attributes:
        file: A tar archive with ``uv``, ``requirements.txt`` and ``wheels/``.
        version: Names its content.
    """

    file: Path
    version: str


def make(
    lock: Path,
    installer: Path,
    package: Path,
    shipped: Mapping[str, Path],
    downloads: Pip,
    cache: Path,
    report: Callable[[str], None],
) -> ControlBundle:
    """Make the archive, or find it in the cache. Blocks, for a minute where wheels have to be fetched.

    Args:
        lock: Requirements with hashes of all that hermesops needs there.
        installer: The same of uv alone, which installs them and is not installed itself.
        package: Folder of hermesops' package; ``shipped``: folders that travel inside it.

    Raises:
        RefusedError: A wheel does not have the hash it is locked to.
        UnavailableError: The package index does not answer or lacks one.
    """
    with scratch_folder(cache, ".packing-control-") as folder:
        own = own_wheel.write(folder, package, shipped)
        parts = (PYTHON.encode(), lock.read_bytes(), installer.read_bytes(), own.read_bytes())
        version = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:_KEY_LENGTH]
        target = cache / f"hermesops-{version}.tar"
        if not target.exists():
            report("fetching the wheels of hermesops for the platform's host")
            wheels = folder / "wheels"
            downloads.wheels(lock, wheels, python=PYTHON)
            shutil.move(own, wheels / own.name)
            downloads.wheels(installer, folder / "installer", python=PYTHON)
            _pack(folder / "bundle", lock, wheels, _uv_in(folder / "installer")).replace(target)
        target.touch()
    for old in sorted(cache.glob("hermesops-*.tar"), key=lambda file: file.stat().st_mtime, reverse=True)[_KEPT:]:
        old.unlink(missing_ok=True)
    return ControlBundle(target, version)


def _pack(target: Path, lock: Path, wheels: Path, uv: bytes) -> Path:
    listed = sorted(wheels.iterdir())
    own = next(file for file in listed if file.name.startswith("hermesops-"))
    requirements = f"{lock.read_text(encoding='utf-8')}\n./wheels/{own.name}\n".encode()
    with tarfile.open(target, "w") as archive:
        _add(archive, "uv", uv, mode=0o755)
        _add(archive, "requirements.txt", requirements)
        for file in listed:
            _add(archive, f"wheels/{file.name}", file.read_bytes())
    return target


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _uv_in(folder: Path) -> bytes:
    """The program uv, out of its wheel."""
    for file in folder.glob("uv-*.whl"):
        with zipfile.ZipFile(file) as archive:
            return archive.read(next(name for name in archive.namelist() if name.endswith("/scripts/uv")))
    raise BrokenInvariantError("the lock of the installer has no uv", hint="lock it in images/hermes-platform/locks")
