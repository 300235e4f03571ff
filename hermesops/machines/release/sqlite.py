"""SQLite of a release: the pinned source, the names of its files in a lock, and the versions that are accepted.

A release brings SQLite as files beside its packages, so that each hermes-node installs it: a shared library with the
soname of the distribution's, a line that loads it into the release's own Python before ``_sqlite3`` is imported, and
the description of its source.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermesops.wire.documents.lock import Blob

ARCHITECTURE = "x86_64"
"""Of all machines, as of the wheels in a lock."""

DESCRIPTION = "hermes-sqlite.json"
LOADER = "hermes-sqlite.pth"

_OLDEST = (3, 51, 3)
_WITHDRAWN = (3, 52, 0)

_VERSION = re.compile(r"3\.\d{1,3}\.\d{1,3}", re.ASCII)
_LIBRARY = re.compile(rf"libsqlite3-({_VERSION.pattern})-{ARCHITECTURE}\.so", re.ASCII)
_MARK = "#sha256="

_LOADS = (
    'import os; exec(\'try:\\n import _ctypes\\n _ctypes.dlopen(os.path.join(sitedir, "{name}"), os.RTLD_NOW)\\n'
    'except BaseException as error:\\n os.write(2, f"hermes-sqlite: {{error}}\\\\n".encode())\\n os._exit(70)\')\n'
)
"""Ends an interpreter that cannot load it: it would write the agent's databases with another SQLite.

Source: ``site.addpackage`` of CPython 3.11 to 3.13, whose ``sitedir`` the line reads; ld.so(8): a library that is
needed is taken for one that is loaded already under the same soname.
"""


@dataclass(frozen=True)
class Source:
    """An archive with ``sqlite3.c``, upstream's amalgamation.

    Attributes:
        url: Its address, or the package that it is.
        sha256: Of the archive.
    """

    url: str
    sha256: str


def sources_in(setting: str) -> tuple[Source, ...]:
    """Parse a setting of pinned addresses, ``URL#sha256=DIGEST`` separated by commas; none in an empty one."""
    pairs = (source.strip().partition(_MARK) for source in setting.split(",") if source.strip())
    return tuple(Source(url, sha256) for url, _, sha256 in pairs)


def description(source: Source, options: Iterable[str]) -> bytes:
    """The signed description of a library: architecture, options of the compiler, and the source with its SHA-256."""
    fields = {
        "architecture": ARCHITECTURE,
        "options": list(options),
        "source": {"url": source.url, "sha256": source.sha256},
    }
    return json.dumps(fields, sort_keys=True, indent=1).encode() + b"\n"


def files_of(version: str, library: bytes, described: bytes) -> Mapping[str, bytes]:
    """The files that go beside a release's packages."""
    name = f"libsqlite3-{version}-{ARCHITECTURE}.so"
    return {name: library, LOADER: _LOADS.format(name=name).encode(), DESCRIPTION: described}


def version_of(site: Iterable[Blob]) -> str:
    """The version of SQLite among the files beside a release's packages; empty for a release without its own."""
    return next((match[1] for blob in site if (match := _LIBRARY.fullmatch(blob.name))), "")


def is_of_sqlite(name: str) -> bool:
    """Whether a file beside a release's packages belongs to its SQLite."""
    return name in {DESCRIPTION, LOADER} or _LIBRARY.fullmatch(name) is not None


def is_sound(version: str) -> bool:
    """Whether a version has the repair of the defect that corrupts databases when a write-ahead log is reset.

    Source: sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2 have the defect; 3.52.0 was withdrawn.
    """
    if not _VERSION.fullmatch(version):
        return False
    numbers = tuple(map(int, version.split(".")))
    return numbers >= _OLDEST and numbers != _WITHDRAWN
