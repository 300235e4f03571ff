"""A Python that a release is to bring: refused before any machine has it."""

import io
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.release.interpreter import (
    OwnPython,
    loads_sqlite,
    own_python,
    refuse_newer_glibc,
    refuse_old_sqlite,
    refuse_other_processors,
)
from hermesops.machines.release.source.archive import SourceFile, SourceTree
from hermesops.machines.release.source.isolation import Isolation
from tests.support.releases.source_archive import pinned

LOADER = b"/lib64/ld-linux-x86-64.so.2\0"


def program(processor: int = 62, *, bits: int = 2, loader: bytes = LOADER, more: bytes = b"") -> bytes:
    head = b"\x7fELF" + bytes((bits, 1, 1)) + bytes(9) + struct.pack("<HH", 2, processor)
    return head.ljust(64, b"\0") + loader + more


def tree(*contents: bytes) -> SourceTree:
    files = {f"lib/{number}.so": SourceFile(content) for number, content in enumerate(contents)}
    return SourceTree("cpython.tar.gz", "0" * 64, "python", files)


def test_one_for_our_machines_is_taken() -> None:
    refuse_other_processors("python", program())
    refuse_newer_glibc("python", tree(program(more=b"GLIBC_2.2.5\0GLIBC_2.36\0"), b"GLIBC_2.99"))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (program(183), "for aarch64"),
        (program(3), r"x86 \(32 bits\)"),
        (program(999), "processor 999"),
        (program(bits=1), "64-bit Linux"),
        (program(loader=b"/lib/ld-musl-x86_64.so.1\0"), "not for glibc"),
        (b"MZ" + bytes(100), "64-bit Linux"),
        (b"#!/bin/sh\n", "64-bit Linux"),
        (b"", "64-bit Linux"),
    ],
)
def test_one_for_another_computer_is_named(content: bytes, match: str) -> None:
    with pytest.raises(RefusedError, match=match):
        refuse_other_processors("python", content)


def test_one_for_newer_systems_is_named() -> None:
    with pytest.raises(RefusedError, match=r"lib/1\.so of python needs glibc 2\.38, and machines have 2\.36"):
        refuse_newer_glibc("python", tree(program(), program(more=b"GLIBC_2.17\0GLIBC_2.38\0")))


@pytest.mark.parametrize("version", ["3.51.2", "3.40.1"])
def test_one_with_a_sqlite_that_damages_databases_is_refused(version: str) -> None:
    with pytest.raises(RefusedError, match=f"brings SQLite {version}"):
        refuse_old_sqlite("python", version)


def test_one_with_a_sound_sqlite_or_none_is_taken() -> None:
    for version in ("3.51.3", "3.53.0", ""):
        refuse_old_sqlite("python", version)
    assert loads_sqlite(tree(program(), program(more=b"libsqlite3.so.0\0")))
    assert not loads_sqlite(tree(program()))


def test_a_zip_is_refused_as_machines_cannot_unpack_it(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("python/bin/python3.14", program())
    path = tmp_path / "cpython.zip"
    path.write_bytes(content.getvalue())
    with pytest.raises(RefusedError, match=r"cpython\.zip is no tar\.gz"):
        own_python(pinned(path), Isolation())


def test_its_name_in_a_release_does_not_depend_on_the_mirror() -> None:
    python = OwnPython("3.14.0", "", "cpython-3.14.0+20251014-install_only.tar.gz", b"", tree())
    assert python.kept_name == replace(python, name="python.tar.gz").kept_name == "cpython-3.14.0-x86_64.tar.gz"
