"""A Python that a release is to bring: refused before any machine has it."""

import struct

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.release.interpreter import (
    loads_sqlite,
    refuse_newer_glibc,
    refuse_old_sqlite,
    refuse_other_processors,
)
from hermesops.machines.release.source.archive import SourceFile, SourceTree

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
