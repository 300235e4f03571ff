"""Packs hermes-node into one executable file that needs nothing but Python; the same sources give the same bytes."""

import io
import py_compile
import stat
import tempfile
import zipfile
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_NOT_SHIPPED = "build.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_START = b"""import sys

sys.dont_write_bytecode = True
from hermesops.node.__main__ import main

sys.exit(main())
"""


def zipapp(*, interpreter: str = "/usr/bin/python3 -I") -> bytes:
    """The program as an executable zip archive.

    Not ``zipapp.create_archive``: it takes file times and folder order as they come.

    Args:
        interpreter: First line of the file. Isolated, so that nobody's PYTHONPATH or current folder gets into a
            program that runs as root.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _START)
        _add(archive, "hermesops/__init__.py", b"")
        for path in sorted(_FOLDER.glob("*.py")):
            if path.name != _NOT_SHIPPED:
                _add(archive, f"hermesops/node/{path.name}", path.read_bytes())
                _add(archive, f"hermesops/node/{path.stem}.pyc", _compiled(path))
    return f"#!{interpreter}\n".encode() + buffer.getvalue()


def _compiled(path: Path) -> bytes:
    """The module as this Python compiles it; others, whose bytecode is another, go by the source beside it.

    Compiling all modules takes three quarters of a start, and nothing may write beside the program.

    Source: ``zipimport`` of CPython 3.11 to 3.13: ``.pyc`` before ``.py``, and passed over when its number is another.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "module.pyc")
        name = f"hermesops/node/{path.name}"
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # no time of a file in it
        py_compile.compile(str(path), str(made), dfile=name, doraise=True, invalidation_mode=mode)
        return made.read_bytes()


def write(path: Path) -> None:
    """Write the program to a file that may be run."""
    path.write_bytes(zipapp())
    path.chmod(0o755)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(entry, data)
