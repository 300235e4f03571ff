"""Parts of releases from packages: the binary of uv from its wheel, the skills from the agent's source archive."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

from hermesops.errors import BrokenInvariantError
from hermesops.machines.image.definition import AgentPins
from hermesops.machines.image.packages.download import Pip


def uv_of(pins: AgentPins, scratch: Path, *, downloads: Pip) -> bytes:
    """The static binary of uv that an image pins.

    Args:
        pins: What the image pins.
        scratch: A folder to work in.
        downloads: Fetches packages.

    Raises:
        RefusedError: The index offers something else.
        UnavailableError: It does not answer.
    """
    pin = scratch / "uv.txt"
    pin.write_text(f"uv=={pins.uv_version} --hash=sha256:{pins.uv_sha256}\n", encoding="utf-8")
    downloads.wheels(pin, scratch / "uv", python=min(pins.locks))
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
        members = [member for member in archive.getmembers() if _below_skills(member.name) and member.isfile()]
        if not members:
            raise BrokenInvariantError(f"{source.name} holds no skills")
        for member in sorted(members, key=lambda m: m.name):
            stream = archive.extractfile(member)
            if stream is not None:
                added = tarfile.TarInfo(member.name.partition("/")[2])
                added.size, added.mode = member.size, 0o755 if member.mode & 0o100 else 0o644
                skills.addfile(added, stream)
    return content.getvalue()


def _below_skills(name: str) -> bool:
    parts = name.split("/")
    return len(parts) > 2 and parts[1] == "skills" and ".." not in parts  # noqa: PLR2004 - archive, skills, something


def _only(folder: Path) -> Path:
    files = list(folder.iterdir())
    if len(files) != 1:
        raise BrokenInvariantError(f"expected one file in {folder}, found {len(files)}")
    return files[0]
