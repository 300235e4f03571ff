"""The SQLite with which hermes-node opens the agent's databases: the library of a release on this machine.

The running slot's comes first, then the newest one of another slot. A machine without any has the distribution's: it
only reads while a gateway runs, and a connection that cannot write never resets a log.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from hermesops.wire.layout import Layout

_PLACE = "venv/lib/python3.*/site-packages/libsqlite3-*-x86_64.so"
"""In a slot; ``machines.release.sqlite`` names the file."""

_LAYOUT = Layout()


def load(layout: Layout = _LAYOUT) -> None:
    """Load a release's SQLite, for the ``_sqlite3`` that is imported afterwards.

    Raises:
        RuntimeError: ``_sqlite3`` is imported already, and has loaded another one.
    """
    if "_sqlite3" in sys.modules:
        raise RuntimeError("SQLite was loaded before the release's own")
    import _ctypes  # noqa: PLC0415 - ctypes itself takes ten times as long to import

    for library in libraries(layout):
        try:
            _ctypes.dlopen(str(library), os.RTLD_NOW)
        except OSError:
            continue  # of a slot that is being removed
        return


def libraries(layout: Layout) -> Iterator[Path]:
    """The libraries of all slots, the running slot's first, then the newest slot's."""
    yield from layout.current.glob(_PLACE)
    yield from sorted(layout.releases.glob(f"*/{_PLACE}"), key=lambda path: path.lstat().st_mtime, reverse=True)
