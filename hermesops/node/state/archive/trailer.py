"""How an archive of a state ends: when each file was changed, and what it all amounts to.

Whatever changes while nothing that matters does is here, and in no header before: restic cuts a stream where its
content says so, and one changed byte costs the whole piece around it, a megabyte or more. Times change by themselves:
a restore makes every file anew, and an agent writes again what it had.
"""

import io
import json
import sys
import tarfile
from array import array
from collections.abc import Iterable
from typing import Any, BinaryIO

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.untrusted import strict_json

MANIFEST = ".hermes-node/manifest.json"
"""The last member; an archive without it was cut short."""

TIMES = ".hermes-node/times"
"""Nanoseconds since 1970, one signed little-endian number of 8 bytes for each file, in the archive's order."""

GAP = ".hermes-node/gap"
"""Zeros, so many that restic always cuts the stream in them: what follows costs no piece of what came before.

Source: github.com/restic/chunker: a piece has at least 512 KiB, and ends as soon as its last 64 bytes are zeros.
"""

_GAP_BYTES = (512 << 10) + 4096
LARGEST = 1 << 43
"""Bytes of a file: what a file system of ours can hold."""

_VERSION = 2
_MANIFEST_BYTES = 1 << 20
_TIME_BYTES = 8
_LONGEST = (1 << 63) - 1


class Times:
    """When files were changed, in the order in which they come."""

    def __init__(self) -> None:
        self._held = array("q")

    def add(self, mtime_ns: int) -> None:
        """Note one file's; times of other centuries become the nearest that can be told."""
        self._held.append(max(-_LONGEST, min(mtime_ns, _LONGEST)))

    def told(self) -> bytes:
        """All of them, as an archive has them."""
        return _little(self._held).tobytes()


def write(archive: tarfile.TarFile, state: dict[str, dict[str, Any]], files: int, times: Times) -> None:
    """End an archive."""
    _add(archive, GAP, bytes(_GAP_BYTES))
    _add(archive, TIMES, times.told())
    manifest = {"version": _VERSION, "state": state, "files": files}
    _add(archive, MANIFEST, json.dumps(manifest, sort_keys=True).encode())


def refuse_large(size: int) -> None:
    """See that gap and manifest are no way to have somebody read for ever.

    Raises:
        RefusedError: One is larger than ours are.
    """
    if size > _MANIFEST_BYTES:
        raise RefusedError("the copy ends with more than it may")


def read_times(file: BinaryIO, count: int) -> Iterable[int]:
    """When that many files were changed.

    Raises:
        RefusedError: It is told of more, or of fewer.
    """
    data = file.read(count * _TIME_BYTES + 1)
    if len(data) != count * _TIME_BYTES:
        raise RefusedError("the copy does not tell when its files were changed")
    held = array("q")
    held.frombytes(data)
    return _little(held)


def read_manifest(file: BinaryIO) -> dict[str, Any]:
    """What an archive says that it amounts to.

    Raises:
        RefusedError: It says nothing.
        NotReadyError: It is of another version.
    """
    try:
        manifest = strict_json.parse_object(file.read(_MANIFEST_BYTES))
    except strict_json.MalformedJSONError:
        raise RefusedError("the copy does not say what it amounts to") from None
    if manifest.get("version") != _VERSION:
        # No word against the copy: another hermes-node reads it.
        raise NotReadyError(f"the copy is of another version, this hermes-node reads {_VERSION}")
    return manifest


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
