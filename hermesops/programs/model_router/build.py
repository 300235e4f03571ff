"""Packs hermes-router into one file that the environment's Python runs; the same sources give the same bytes."""

import io
import zipfile
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_PACKAGE = _FOLDER.parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)
_START = b"import sys\n\nfrom hermesops.programs.model_router.__main__ import main\n\nsys.exit(main())\n"
_SHARED = (
    "errors.py",
    "base/process_log.py",
    "base/waiting.py",
    "model/ids.py",
    "model/billing/model_usage.py",
    "model/billing/route.py",
)
"""Modules of other packages that come along, with the packages empty."""

_PACKAGES = ("hermesops", "hermesops/base", "hermesops/model", "hermesops/model/billing", "hermesops/programs")


def zipapp() -> bytes:
    """The program as a zip archive."""
    own = {f"hermesops/{path.relative_to(_PACKAGE)}": path.read_bytes() for path in sorted(_FOLDER.rglob("*.py"))}
    shared = {f"hermesops/{name}": (_PACKAGE / name).read_bytes() for name in _SHARED}
    packages = {f"{name}/__init__.py": b"" for name in _PACKAGES}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {"__main__.py": _START, **packages, **shared, **own}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def write(path: Path) -> None:
    """Write the program to a file."""
    path.write_bytes(zipapp())
