"""Packs hermes-node into one executable file that needs nothing but Python; the same sources give the same bytes."""

import io
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from hermesops.wire import processes

_PACKAGE = Path(__file__).resolve().parents[2]
_SHIPPED = (_PACKAGE / "programs" / "node", _PACKAGE / "wire")
_NOT_SHIPPED = "build.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_COMPILES = """import py_compile, sys
folder, *words = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # no time of a file in it
for path, name, compiled in zip(words[::3], words[1::3], words[2::3], strict=True):
    py_compile.compile(path, f"{folder}/{compiled}", dfile=name, doraise=True, invalidation_mode=mode)
"""
_START = b"""import os
import sys

sys.dont_write_bytecode = True
if sys.argv[1:2] == ["as-user"]:  # before sqlite3 is imported: it opens the agent's databases with a release's SQLite
    from hermesops.programs.node.system import sqlite_library

    sqlite_library.load()
from hermesops.programs.node.release import integrity

if sys.argv[1:] == integrity.WORDS:  # asked of thousands: what else there is takes most of a start to import
    main = integrity.main
elif sys.argv[1:] in (["metrics"], ["orders"]) and "HERMES_NODE_EVERY_S" in os.environ:
    from hermesops.programs.node.service import main
else:
    from hermesops.programs.node.__main__ import main

sys.exit(main())
"""


def zipapp(*, interpreter: str = "/usr/bin/python3 -IS") -> bytes:
    """The program as an executable zip archive.

    Not ``zipapp.create_archive``: it takes file times and folder order as they come. The interpreter is isolated, so
    that nobody's PYTHONPATH or current folder gets into a program that runs as root.
    """
    modules = [path for folder in _SHIPPED for path in sorted(folder.rglob("*.py")) if path.name != _NOT_SHIPPED]
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _compile(Path(folder), modules)
        _add(archive, "__main__.py", _START)
        for package in ("hermesops", "hermesops/programs"):
            _add(archive, f"{package}/__init__.py", b"")
        for path in modules:
            _add(archive, _name(path), path.read_bytes())
            _add(archive, f"{_name(path)}c", Path(folder, _compiled(path)).read_bytes())
    return f"#!{interpreter}\n".encode() + buffer.getvalue()


def _compile(folder: Path, modules: Sequence[Path]) -> None:
    """Write each module into the folder, compiled by this Python; other versions use the source beside it.

    Compiling all modules takes three quarters of a start, and nothing may write beside the program. A separate process
    compiles: the bytes of a string depend on other references to it in the process, and so on earlier imports.

    Source: ``zipimport`` of CPython 3.11 to 3.13: ``.pyc`` before ``.py``, and passed over when its number is another;
    ``w_ref`` in ``Python/marshal.c``.
    """
    names = [word for path in modules for word in (str(path), _name(path), _compiled(path))]
    subprocess.run(
        [sys.executable, "-I", "-B", "-c", _COMPILES, str(folder), *names],
        check=True,
        env=processes.ENVIRONMENT,
    )


def _name(path: Path) -> str:
    """The path of a module in the archive."""
    return path.relative_to(_PACKAGE.parent).as_posix()


def _compiled(path: Path) -> str:
    """The file of a folder without folders that a module is compiled to."""
    return f"{'.'.join(path.relative_to(_PACKAGE).with_suffix('').parts)}.pyc"


def write(path: Path) -> None:
    """Write the program to an executable file."""
    path.write_bytes(zipapp())
    path.chmod(0o755)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(entry, data)
