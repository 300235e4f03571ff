"""Signed installation archive of a platform host on AWS: hermesops, its roles and their programs."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

CONTROL = "control.tar"
"""The part from which the host installs hermesops itself, to apply its roles."""

VARIABLES = "variables.json"
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"

Sign = Callable[[bytes], str]
"""Signs bytes; the signature is armored, as ``ssh-keygen -Y sign`` writes it."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was written.

    Attributes:
        folder: Holds it, its sums and their signature; goes to the bucket of releases as it is.
        version: Names its content; what a stack's file has as the host's version.
        bytes: How large the archive is.
    """

    folder: Path
    version: str
    bytes: int


def write(
    target: Path, version: str, parts: Mapping[str, Path | bytes], variables: Mapping[str, str], sign: Sign
) -> Bundle:
    """Write a bundle into a folder of its version; the same parts give the same bytes.

    Args:
        target: Folder in which that of the version is made.
        version: Of hermesops, to which a part of the hash of ``CONTROL`` is added.
        parts: Files of the archive, by their names in it; ``CONTROL`` is one of them.
        variables: Role variables that say where a part is, or of which version.
    """
    content = {**parts, VARIABLES: json.dumps(dict(variables), indent=1, sort_keys=True).encode()}
    named = f"{version}-{_hash_of(content)[:12]}"
    folder = target / named
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"hermesops-{named}.tar"
    with tarfile.open(archive, "w") as bundle:
        for name, part in sorted(content.items()):
            _add(bundle, name, part)
    sums = f"{_sum_of(archive)}  {archive.name}\n".encode()
    (folder / SUMS).write_bytes(sums)
    (folder / SIGNATURE).write_text(sign(sums))
    return Bundle(folder, named, archive.stat().st_size)


def _hash_of(content: Mapping[str, Path | bytes]) -> str:
    digest = hashlib.sha256()
    for name, part in sorted(content.items()):
        digest.update(f"{name} {_sum_of(part)}\n".encode())
    return digest.hexdigest()


def _sum_of(part: Path | bytes) -> str:
    if isinstance(part, bytes):
        return hashlib.sha256(part).hexdigest()
    with part.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, part: Path | bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if isinstance(part, bytes):
        entry.size = len(part)
        archive.addfile(entry, io.BytesIO(part))
        return
    entry.size = part.stat().st_size
    with part.open("rb") as file:
        archive.addfile(entry, file)
