"""A small Python in the shape of python-build-standalone's archives: Debian's packages of 3.11.

Debian's Python finds its library beside its program. The real builds are in no package registry.
"""

import gzip
import io
import os
import tarfile
from pathlib import Path

from hermesops.machines.release.pinned import PinnedFile
from tests.support.real.debian import unpacked
from tests.support.releases.source_archive import pinned
from tests.support.suite.kept import shared_cache
from tests.support.suite.prerequisites import require

PYTHON = "3.11"
_PACKAGES = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib")


def own_python_archive() -> PinnedFile:
    """The archive, kept between runs."""
    path = shared_cache() / "cpython-3.11-x86_64-debian.tar.gz"
    if not path.exists():
        root = unpacked(*_PACKAGES)
        require(root is not None, "Debian's Python 3.11: apt-get download")
        assert root is not None
        partial_path = path.with_name(f".{path.name}.{os.getpid()}")
        partial_path.write_bytes(_packed(root / "usr"))
        partial_path.replace(path)
    return pinned(path)


def _packed(usr: Path) -> bytes:
    content = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in (usr / "bin/python3.11", *sorted((usr / "lib/python3.11").rglob("*"))):
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                member = tarfile.TarInfo(f"python/{path.relative_to(usr)}")
                member.size, member.mode = path.stat().st_size, path.stat().st_mode & 0o777
                archive.addfile(member, io.BytesIO(path.read_bytes()))
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "python3.11"
        archive.addfile(link)
    return content.getvalue()
