"""The agent's bundle: everything a machine needs to install the agent without a network.

A bundle is a folder below the cache, named after its inputs, so it is made once and never changed::

    requirements.txt    the lock
    wheels/             what the lock names, for one Python
    skills.tar.gz       the agent's bundled skills, from its source archive
    uv                  the static binary that installs the wheels
    bundle.tar          all of these in one file, for one upload instead of ninety
    bundle.json         SHA-256 of each
"""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hermesops.errors import BrokenInvariantError
from hermesops.image.definition import Definition
from hermesops.image.download import Pip

_LAYOUT = 1
"""Raised when the folder's contents change for equal inputs."""

_INDEX = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """A complete bundle on this computer.

    Attributes:
        folder: Read-only by agreement: other builds use it too.
        digest: SHA-256 over its files' hashes.
        made: Whether this call made it; otherwise it was in the cache.
    """

    folder: Path
    digest: str
    made: bool


def bundle(
    definition: Definition, python: str, *, cache: Path, downloads: Pip, report: Callable[[str], None]
) -> Bundle:
    """Find the agent's bundle for a Python in the cache, or make it; blocks for some 15 s on a cold cache.

    A bundle with a damaged file is made again. Safe to be called by two processes at once.

    Args:
        python: As ``3.11``.

    Raises:
        UsageError: The image has no lock for that Python.
        RefusedError: A package does not have the hash it is locked to.
        UnavailableError: A package cannot be fetched.
    """
    lock = definition.lock_for(python)
    place = cache / "bundles" / f"hermes-agent-py{python}-{_key(definition, lock, python)}"
    found = _verified_digest(place)
    if found:
        return Bundle(place, found, made=False)
    report(f"fetching the agent's wheels for Python {python}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as scratch:
        draft = Path(scratch) / "bundle"
        draft.mkdir(mode=0o755)
        _fill(draft, Path(scratch), definition, lock, python, downloads)
        digest = _seal(draft)
        shutil.rmtree(place, ignore_errors=True)
        try:
            draft.rename(place)
        except OSError:
            # Another process was faster; its bundle was made from the same hashes.
            other = _verified_digest(place)
            if not other:
                raise
            return Bundle(place, other, made=False)
    return Bundle(place, digest, made=True)


def _fill(draft: Path, scratch: Path, definition: Definition, lock: Path, python: str, downloads: Pip) -> None:
    shutil.copyfile(lock, draft / "requirements.txt")
    (draft / "wheels").mkdir()
    downloads.wheels(lock, draft / "wheels", python=python)

    (draft / "uv").write_bytes(uv_of(definition, scratch, python=python, downloads=downloads))
    (draft / "uv").chmod(0o755)

    downloads.source(definition.sdist, scratch / "source")
    (draft / "skills.tar.gz").write_bytes(skills_of(_only(scratch / "source")))


def uv_of(definition: Definition, scratch: Path, *, downloads: Pip, python: str = "") -> bytes:
    """The static binary of uv that an image pins.

    Args:
        python: Of the machine, as ``3.11``; any of the image's will do.

    Raises:
        RefusedError: The index offers something else.
        UnavailableError: It does not answer.
    """
    pin = scratch / "uv.txt"
    pin.write_text(f"uv=={definition.uv_version} --hash=sha256:{definition.uv_sha256}\n", encoding="utf-8")
    downloads.wheels(pin, scratch / "uv", python=python or min(definition.locks))
    wheel = _only(scratch / "uv")
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith(".data/scripts/uv")), None)
        if name is None:
            raise BrokenInvariantError(f"{wheel.name} holds no uv")
        return archive.read(name)


def skills_of(source: Path) -> bytes:
    """The folder ``skills/`` of a source archive as a tar.gz whose bytes depend on its contents alone."""
    content = io.BytesIO()
    with (
        tarfile.open(source) as archive,
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as skills,
    ):
        wanted = [member for member in archive.getmembers() if _below_skills(member.name) and member.isfile()]
        if not wanted:
            raise BrokenInvariantError(f"{source.name} holds no skills")
        for member in sorted(wanted, key=lambda m: m.name):
            stream = archive.extractfile(member)
            if stream is not None:
                _add(skills, member.name.partition("/")[2], stream.read(), executable=bool(member.mode & 0o100))
    return content.getvalue()


def _below_skills(name: str) -> bool:
    parts = name.split("/")
    return len(parts) > 2 and parts[1] == "skills" and ".." not in parts  # noqa: PLR2004 - archive, skills, something


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, executable: bool) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o755 if executable else 0o644
    archive.addfile(member, io.BytesIO(content))


def _seal(draft: Path) -> str:
    files = list(_files(draft))
    with tarfile.open(draft / "bundle.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for path in files:
            _add(archive, path.relative_to(draft).as_posix(), path.read_bytes(), executable=path.name == "uv")
    hashes = {path.relative_to(draft).as_posix(): _sha256(path) for path in _files(draft)}
    (draft / _INDEX).write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return _digest(hashes)


def _verified_digest(place: Path) -> str:
    """The digest of a bundle none of whose files is missing, damaged or extra; else nothing."""
    try:
        hashes = json.loads((place / _INDEX).read_text(encoding="utf-8"))
        seen = {path.relative_to(place).as_posix(): _sha256(path) for path in _files(place) if path.name != _INDEX}
    except (OSError, ValueError):
        return ""
    return _digest(seen) if seen == hashes else ""


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _key(definition: Definition, lock: Path, python: str) -> str:
    parts = [
        str(_LAYOUT),
        python,
        definition.uv_version,
        definition.uv_sha256,
        _sha256(lock),
        _sha256(definition.sdist),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _digest(hashes: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _only(folder: Path) -> Path:
    files = list(folder.iterdir())
    if len(files) != 1:
        raise BrokenInvariantError(f"expected one file in {folder}, found {len(files)}")
    return files[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
