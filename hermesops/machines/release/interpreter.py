"""A Python that a release brings: checked, and started once apart from this computer, before it is in any store.

Source: python-build-standalone, archives ``install_only``: one folder ``python`` with ``bin``, ``lib`` and others; ELF
header in elf(5); names of glibc's symbol versions.
"""

import json
import platform
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from packaging.version import Version

from hermesops.errors import RefusedError
from hermesops.machines.image.packages.download import NEWEST_GLIBC
from hermesops.machines.release.pinned import PinnedFile
from hermesops.machines.release.source.archive import MAX_ARCHIVE, SourceFile, SourceTree, read_tree
from hermesops.machines.release.source.isolation import Isolation
from hermesops.machines.release.source.limits import Limits

_BINARY = re.compile(r"bin/python3\.[0-9]{1,2}")
_GZIP = b"\x1f\x8b"
_ELF, _64_BIT, _LITTLE = b"\x7fELF", 2, 1
_PROCESSORS = {3: "x86 (32 bits)", 40: "ARM (32 bits)", 62: "x86_64", 183: "aarch64", 243: "RISC-V"}
_X86_64, _ARCHITECTURE = 62, "x86_64"
_HEADER = 64
_LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
_GLIBC = re.compile(rb"GLIBC_2\.([0-9]{1,3})\b")
_VERSION = re.compile(r"3\.[0-9]{1,2}\.[0-9]{1,3}[0-9a-z]{0,8}")
_LIBRARY = b"libsqlite3.so.0\0"
_MENDED_SQLITE = Version("3.51.3")
_LIMITS = Limits(seconds=60.0)
_QUESTION = (
    "import ctypes, hashlib, json, platform, sqlite3, ssl, sys, venv, zlib\n"
    "print(json.dumps({'version': platform.python_version(), 'sqlite': sqlite3.sqlite_version}))"
)


@dataclass(frozen=True)
class OwnPython:
    """A Python that was checked.

    Attributes:
        version: Complete, as ``3.14.0``.
        sqlite: The version of the SQLite that is linked into it; empty where it loads a library.
        name: Name of its archive, as its first source has it.
        content: Its archive.
        tree: The archive's files.
    """

    version: str
    sqlite: str
    name: str
    content: bytes
    tree: SourceTree

    @property
    def python(self) -> str:
        """The version that wheels are made for, as ``3.14``."""
        return ".".join(self.version.split(".")[:2])

    @property
    def kept_name(self) -> str:
        """Name of its archive in a release: the same wherever it was fetched from, as it is a part of the release."""
        return f"cpython-{self.version}-{_ARCHITECTURE}.tar.gz"

    @property
    def program(self) -> str:
        """Path of the program in the archive."""
        return f"python/bin/python{self.python}"

    @property
    def files(self) -> dict[str, SourceFile]:
        """The files of the interpreter's archive, by their paths."""
        return {f"python/{path}": file for path, file in self.tree.files.items()}


def own_python(pin: PinnedFile, isolation: Isolation, report: Callable[[str], None] = lambda _: None) -> OwnPython:
    """Read, check and start a Python that a release is to bring; ``report`` names each source that failed.

    Raises:
        RefusedError: Its archive is another one, or no Python for x86_64 machines with glibc, or it does not start.
        UnavailableError: No source of it answers.
    """
    content = pin.read(at_most=MAX_ARCHIVE, report=report)
    if not content.startswith(_GZIP):  # machines unpack nothing else
        raise RefusedError(f"{pin.name} is no tar.gz", hint="name an archive install_only of python-build-standalone")
    tree = read_tree(pin.name, content, pin.sha256)
    if tree.top != "python":
        raise RefusedError(
            f"{pin.name} holds a folder {tree.top!r}, not python",
            hint="name an archive install_only of python-build-standalone",
        )
    names = [path for path in tree.files if _BINARY.fullmatch(path)]
    if len(names) != 1:
        raise RefusedError(f"{pin.name} holds {len(names)} programs bin/python3.N where one was expected")
    program = names[0]
    refuse_other_processors(f"{program} of {pin.name}", tree.files[program].content)
    refuse_newer_glibc(pin.name, tree)
    answer = _answer(pin.name, program, tree, isolation)
    sqlite = "" if loads_sqlite(tree) else answer["sqlite"]
    refuse_old_sqlite(pin.name, sqlite)
    return OwnPython(answer["version"], sqlite, pin.name, content, tree)


def refuse_other_processors(title: str, content: bytes) -> None:
    """Refuse a program that does not run on x86_64 Linux with glibc.

    Raises:
        RefusedError: It is for another processor, system or C library.
    """
    if len(content) < _HEADER or content[:4] != _ELF or (content[4], content[5]) != (_64_BIT, _LITTLE):
        raise RefusedError(f"{title} is no program of 64-bit Linux", hint="machines are x86_64 Linux")
    (processor,) = struct.unpack_from("<H", content, 18)
    if processor != _X86_64:
        name = _PROCESSORS.get(processor, f"processor {processor}")
        raise RefusedError(f"{title} is for {name}", hint="name the one for x86_64-unknown-linux-gnu")
    if _LOADER not in content:
        raise RefusedError(f"{title} is not for glibc", hint="name the one for x86_64-unknown-linux-gnu")


def refuse_newer_glibc(name: str, tree: SourceTree) -> None:
    """Refuse a Python that needs a newer glibc than our oldest machines have.

    Raises:
        RefusedError: A file of it does.
    """
    for path, file in tree.files.items():
        if not file.content.startswith(_ELF):
            continue
        newest = max((int(minor) for minor in _GLIBC.findall(file.content)), default=0)
        if newest > NEWEST_GLIBC:
            raise RefusedError(f"{path} of {name} needs glibc 2.{newest}, and machines have 2.{NEWEST_GLIBC}")


def loads_sqlite(tree: SourceTree) -> bool:
    """Whether a Python loads ``libsqlite3.so.0``, and so gets the library that the release brings."""
    return any(_LIBRARY in file.content for file in tree.files.values() if file.content.startswith(_ELF))


def refuse_old_sqlite(name: str, version: str) -> None:
    """Refuse a Python into which a SQLite is linked that may damage a database of several connections.

    Args:
        version: Of that SQLite; empty for none.

    Raises:
        RefusedError: Its SQLite is older than 3.51.3.

    Source: SQLite's release notes, 3.51.3: the WAL-reset bug of 3.7.0 to 3.51.2.
    """
    if version and Version(version) < _MENDED_SQLITE:
        raise RefusedError(
            f"{name} brings SQLite {version}, which can damage an agent's database",
            hint=f"name a build of Python with SQLite {_MENDED_SQLITE} or newer",
        )


def _answer(name: str, program: str, tree: SourceTree, isolation: Isolation) -> dict[str, str]:
    if platform.machine() != _ARCHITECTURE:
        raise RefusedError(
            f"{name} cannot be started here, on {platform.machine()}", hint="build this release on an x86_64 computer"
        )
    files = {f"python/{path}": file for path, file in tree.files.items()}
    text = Isolation(_LIMITS, isolation.bwrap).run(
        name, [f"{{place}}/python/{program}", "-I", "-c", _QUESTION], files, {}
    )
    try:
        answer = json.loads(text)
        version, sqlite = str(answer["version"]), str(answer["sqlite"])
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"{name} does not say which version it is") from error
    if not _VERSION.fullmatch(version) or not program.endswith(".".join(version.split(".")[:2])):
        raise RefusedError(f"{name} says that it is Python {version!r}"[:200])
    return {"version": version, "sqlite": sqlite}
