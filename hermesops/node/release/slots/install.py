"""Fills a slot from a release's files, without a network and as root's own."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.layout import UNIT
from hermesops.node.release.documents.lock import Blob, Lock, Wheels
from hermesops.node.system import child_environment

PYTHON = "/usr/bin/python3"

_MIB = 1 << 20
_SPARE = 128 * _MIB
_COMPILED = 1.7
"""Bytes on the disk for each byte of a wheel's content, compiled and in whole blocks: 257 MB of 155 (0.19.0)."""


def fill(slot: Path, lock: Lock, blobs: Path, python: str) -> None:
    """Make everything in a slot but ``release.json``.

    Raises:
        RefusedError: There is no room, with the figures.
        NotReadyError: A program failed.
    """
    wheels = lock.wheels(python)
    if wheels is None:
        raise RefusedError(f"release {lock.id} is for simulated machines")
    _refuse_full(slot.parent, wheels, blobs)
    slot.mkdir(mode=0o755, parents=True)
    slot.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=slot.parent, prefix=".making-") as name:
        folder = Path(name)
        _link_all(wheels, blobs, folder)
        _install(slot, wheels, blobs, _uv(blobs / lock.uv.sha256, folder / "uv"), folder)
    site = slot / "venv/lib" / f"python{python}" / "site-packages"
    for blob in lock.site:
        _put(blobs, blob, site / blob.name)
    with tarfile.open(blobs / lock.skills.sha256) as archive, _readable():
        (slot / "skills").mkdir(exist_ok=True)
        # One by one: filters came to extractall with 3.11.4, and Debian 12 has 3.11.2.
        for member in filter(_is_skill, archive):
            archive.extract(member, slot)
    _put(blobs, lock.unit, slot / UNIT)


def _link_all(wheels: Wheels, blobs: Path, folder: Path) -> None:
    """Give each wheel its name back: an installer goes by it."""
    (folder / "wheels").mkdir()
    for blob in wheels.wheels:
        (folder / "wheels" / blob.name).hardlink_to(blobs / blob.sha256)


def _install(slot: Path, wheels: Wheels, blobs: Path, uv: Path, folder: Path) -> None:
    offline = ("--offline", "--no-config", "--no-cache")
    _run(uv, "venv", *offline, f"--python={PYTHON}", str(slot / "venv"))
    # Compiled now: the agent's user may not write __pycache__ here, so every start would compile again.
    _run(
        uv,
        *("pip", "install", *offline, "--no-index", f"--find-links={folder / 'wheels'}", "--require-hashes"),
        *("--compile-bytecode", f"--python={slot / 'venv/bin/python'}"),
        f"--requirement={blobs / wheels.requirements.sha256}",
    )
    (slot / "venv/.lock").unlink(missing_ok=True)  # uv leaves it writable for everybody


def _uv(blob: Path, target: Path) -> Path:
    shutil.copyfile(blob, target)
    target.chmod(0o700)
    return target


def _put(blobs: Path, blob: Blob, target: Path) -> None:
    shutil.copyfile(blobs / blob.sha256, target)
    target.chmod(0o644)


def _is_skill(member: tarfile.TarInfo) -> bool:
    first, *rest = member.name.split("/")
    return member.isfile() and first == "skills" and bool(rest) and ".." not in rest


@contextmanager
def _readable() -> Iterator[None]:
    """What is made meanwhile may be read by the agent's user."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _run(program: Path, *words: str) -> None:
    environment = {**child_environment.ENVIRONMENT, "UV_LINK_MODE": "copy"}
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, check=False, timeout=600, umask=0o022, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"uv {words[0]}: {error}") from error
    if done.returncode:
        raise NotReadyError(f"uv {words[0]}: {done.stderr.strip()[-600:]}")


def _refuse_full(place: Path, wheels: Wheels, blobs: Path) -> None:
    content = 0
    for blob in wheels.wheels:
        with zipfile.ZipFile(blobs / blob.sha256) as archive:
            content += sum(entry.file_size for entry in archive.infolist())
    needed, free = int(content * _COMPILED) + _SPARE, shutil.disk_usage(place).free
    if free < needed:
        raise RefusedError(f"no room for the slot: it takes {needed // _MIB} MiB, {free // _MIB} MiB are free")
