"""The wheel of hermesops as it runs here, from a checkout or an installation: the same files, the same bytes.

A build backend would have to be fetched, and an installation has nothing to build from.
"""

import base64
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

_NAME = "hermesops"
_SHIPPED = "_shipped"
_BEGIN = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a ZIP file can name."""
_WHEEL = "Wheel-Version: 1.0\nGenerator: hermesops\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write(folder: Path, package: Path, shipped: Mapping[str, Path]) -> Path:
    """Write the wheel into a folder; its path.

    Args:
        package: Folder of the package.
        shipped: Folders that travel inside the package, by their names there.
    """
    own = metadata.distribution(_NAME)
    target = folder / f"{_NAME}-{own.version}-py3-none-any.whl"
    info = f"{_NAME}-{own.version}.dist-info"
    records: list[str] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_files(package, shipped)):
            content = file.read_bytes()
            _add(archive, name, content, executable=os.access(file, os.X_OK))
            records.append(_record(name, content))
        texts = {
            "METADATA": own.read_text("METADATA") or "",
            "WHEEL": _WHEEL,
            "entry_points.txt": own.read_text("entry_points.txt") or "",
        }
        for name, text in texts.items():
            _add(archive, f"{info}/{name}", text.encode())
            records.append(_record(f"{info}/{name}", text.encode()))
        record = f"{info}/RECORD"
        _add(archive, record, "".join([*records, f"{record},,\n"]).encode())
    return target


def _files(package: Path, shipped: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    for name, folder in ((_NAME, package), *((f"{_NAME}/{_SHIPPED}/{key}", place) for key, place in shipped.items())):
        for file in folder.rglob("*"):
            inner = file.relative_to(folder)
            is_shipped_twice = folder == package and inner.parts[0] == _SHIPPED
            if file.is_file() and "__pycache__" not in inner.parts and not is_shipped_twice:
                yield f"{name}/{inner.as_posix()}", file


def _add(archive: zipfile.ZipFile, name: str, content: bytes, *, executable: bool = False) -> None:
    entry = zipfile.ZipInfo(name, _BEGIN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(entry, content)


def _record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
