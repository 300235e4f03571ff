"""Packs hermes-ingest into one executable file; the same sources give the same bytes."""

import io
import zipfile
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
_START = b"import sys\n\nfrom hermesops.programs.ingest.__main__ import main\n\nsys.exit(main())\n"


def zipapp() -> bytes:
    """The program as an executable zip archive; its interpreter reads nobody's PYTHONPATH."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        modules = {f"hermesops/programs/ingest/{path.name}": path.read_bytes() for path in sorted(_FOLDER.glob("*.py"))}
        for name, data in {
            "__main__.py": _START,
            "hermesops/__init__.py": b"",
            "hermesops/programs/__init__.py": b"",
            **modules,
        }.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return b"#!/usr/bin/python3 -I\n" + buffer.getvalue()


def write(path: Path) -> None:
    """Write the program to a file that may be run."""
    path.write_bytes(zipapp())
    path.chmod(0o755)
