"""Installs a release's files: fills its slot, without a network and as root's own, and updates hermes-node itself.

A new hermes-node lies beside the old one, and a link says which of them is the machine's. The new one is only used
after it has answered, so a program that cannot read this machine is never the one that would have to roll it back.
"""

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hermesops.programs.node.system import files
from hermesops.wire import processes
from hermesops.wire.documents.lock import Blob, Interpreter, Lock, Wheels
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.layout import UNIT, Layout

PYTHON = "/usr/bin/python3"
OWN_PYTHON, SKILLS, RESOURCES = "python", "skills", "resources"
"""Folders of a slot; ``python`` is there where a release brings one."""

_MIB = 1 << 20
_SPARE = 128 * _MIB
_COMPILED = 1.7
"""Bytes on the disk for each byte of a wheel's content, compiled and in whole blocks: 257 MB of 155 (0.19.0)."""

_ANSWER_S = 60.0


def fill(slot: Path, lock: Lock, blobs: Path, python: str) -> None:
    """Make everything in a slot but ``release.json``.

    Raises:
        RefusedError: There is no room, with the figures.
        NotReadyError: A program failed.
    """
    wheels = lock.wheels(python)
    if wheels is None:
        raise RefusedError(f"release {lock.id} is for simulated machines")
    archives = [lock.skills, *_optional(lock)]
    _refuse_full(slot.parent, wheels, [blobs / blob.sha256 for blob in archives], blobs)
    slot.mkdir(mode=0o755, parents=True)
    slot.chmod(0o755)
    program = _own_python(slot, lock.interpreter, blobs) if lock.interpreter else PYTHON
    with tempfile.TemporaryDirectory(dir=slot.parent, prefix=".making-") as name:
        folder = Path(name)
        shutil.copyfile(blobs / lock.uv.sha256, folder / "uv")
        (folder / "uv").chmod(0o700)
        _install(slot, wheels, blobs, folder, program)
    site = slot / "venv/lib" / f"python{lock.python_on(python)}" / "site-packages"
    for blob in lock.site:
        _put(blobs, blob, site / blob.name)
    with _readable():
        (slot / SKILLS).mkdir(exist_ok=True)
    _unpack(blobs / lock.skills.sha256, slot, lambda first: first == SKILLS)
    if lock.resources:
        with _readable():
            (slot / RESOURCES).mkdir()
        _unpack(blobs / lock.resources.sha256, slot / RESOURCES, lambda _: True)
    _put(blobs, lock.unit, slot / UNIT)


def _optional(lock: Lock) -> Iterator[Blob]:
    if lock.interpreter:
        yield lock.interpreter.archive
    if lock.resources:
        yield lock.resources


def _own_python(slot: Path, interpreter: Interpreter, blobs: Path) -> str:
    """Unpack the Python that a release brings, compile its library and return the path of its program."""
    _unpack(blobs / interpreter.archive.sha256, slot, lambda first: first == OWN_PYTHON, links=True)
    program = slot / OWN_PYTHON / "bin" / f"python{interpreter.python}"
    # The agent's user may not write __pycache__ here, so every start would compile again.
    library = slot / OWN_PYTHON / "lib" / f"python{interpreter.python}"
    words = (program, "-I", "-m", "compileall", "-q", "-x", "bad_coding|badsyntax|lib2to3/tests", str(library))
    done = processes.run(words, timeout_s=600, umask=0o022)
    if done.returncode:
        why = processes.last_line(done)
        raise NotReadyError(f"the Python of this release does not run here: {why or done.returncode}")
    return str(program)


def _install(slot: Path, wheels: Wheels, blobs: Path, folder: Path, python: str) -> None:
    uv = folder / "uv"
    (folder / "wheels").mkdir()
    for blob in wheels.wheels:  # an installer needs each wheel's file name
        (folder / "wheels" / blob.name).hardlink_to(blobs / blob.sha256)
    offline = ("--offline", "--no-config", "--no-cache")
    _run(uv, "venv", *offline, f"--python={python}", str(slot / "venv"))
    # Compiled now: the agent's user may not write __pycache__ here, so every start would compile again.
    _run(
        uv,
        *("pip", "install", *offline, "--no-index", f"--find-links={folder / 'wheels'}", "--require-hashes"),
        *("--compile-bytecode", f"--python={slot / 'venv/bin/python'}"),
        f"--requirement={blobs / wheels.requirements.sha256}",
    )
    (slot / "venv/.lock").unlink(missing_ok=True)  # uv leaves it writable for everybody


def _put(blobs: Path, blob: Blob, target: Path) -> None:
    shutil.copyfile(blobs / blob.sha256, target)
    target.chmod(0o644)


def _unpack(archive: Path, target: Path, wanted: Callable[[str], bool], *, links: bool = False) -> None:
    """Unpack the files of an archive below some first folders; with ``links``, also symbolic links that stay there."""
    with tarfile.open(archive) as opened, _readable():
        # One by one: filters came to extractall with 3.11.4, and Debian 12 has 3.11.2.
        for member in opened:
            first, *rest = member.name.split("/")
            if not wanted(first) or not rest or ".." in rest or _is_below_link(target, first, *rest[:-1]):
                continue
            if member.isfile() or (links and member.issym() and _stays(rest, member.linkname)):
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode = 0o755 if member.mode & 0o100 else 0o644
                opened.extract(member, target)


def _stays(rest: list[str], target: str) -> bool:
    """Whether a link's target is below the archive's first folder: as few steps up as the link is deep, then down."""
    parts = target.split("/")
    steps_up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return steps_up < len(rest) and not any(part in {"", ".."} for part in parts[steps_up:])


def _is_below_link(target: Path, *folders: str) -> bool:
    """Whether a folder of a path is a link, through which a file would land elsewhere."""
    return any(target.joinpath(*folders[:number]).is_symlink() for number in range(1, len(folders) + 1))


@contextmanager
def _readable() -> Iterator[None]:
    """Make new files readable for the agent's user."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _run(program: Path, *words: str) -> None:
    environment = {**processes.ENVIRONMENT, "UV_LINK_MODE": "copy"}
    done = processes.run((program, *words), timeout_s=600, umask=0o022, environment=environment)
    if done.returncode:
        raise NotReadyError(f"uv {words[0]}: {done.stderr.decode(errors='replace').strip()[-600:]}")


def _refuse_full(place: Path, wheels: Wheels, archives: list[Path], blobs: Path) -> None:
    content = 0
    for path in archives:
        with tarfile.open(path) as opened:
            content += sum(member.size for member in opened)
    for blob in wheels.wheels:
        with zipfile.ZipFile(blobs / blob.sha256) as archive:
            content += sum(entry.file_size for entry in archive.infolist())
    needed, free = int(content * _COMPILED) + _SPARE, shutil.disk_usage(place).free
    if free < needed:
        raise RefusedError(f"no room for the slot: it takes {needed // _MIB} MiB, {free // _MIB} MiB are free")


def update_node(layout: Layout, program: Blob) -> str:
    """Make a release's own hermes-node the machine's; return the reason if that failed, else an empty text."""
    link = layout.program
    version = link.parent / "versions" / program.sha256[:16]
    if link.exists() and hashlib.sha256(link.read_bytes()).hexdigest() == program.sha256:
        return ""
    version.parent.mkdir(mode=0o755, exist_ok=True)
    version.parent.chmod(0o755)
    making = version.with_name(f".{version.name}.making")
    shutil.copyfile(layout.blobs / program.sha256, making)
    making.chmod(0o755)
    files.sync(making)
    why = _refusal(making)
    if why:
        making.unlink()
        return why
    making.rename(version)
    _keep_former(link)
    files.point(link, f"versions/{version.name}")
    _forget_others(link, version)
    return ""


def _refusal(program: Path) -> str:
    try:
        done = processes.run((program, "status"), timeout_s=_ANSWER_S)
        status = json.loads(done.stdout)
    except (NotReadyError, ValueError) as error:
        return f"the release's hermes-node does not answer: {error}"
    if done.returncode or not isinstance(status, dict) or "node" not in status:
        why = status.get("error", done.returncode) if isinstance(status, dict) else "no object"
        return f"the release's hermes-node does not know this machine: {why}"
    return ""


def _keep_former(link: Path) -> None:
    """Store the program that a role has installed beside the other versions."""
    if not link.is_symlink() and link.exists():
        link.with_name("versions").mkdir(exist_ok=True)
        (link.parent / "versions" / "role").unlink(missing_ok=True)
        (link.parent / "versions" / "role").hardlink_to(link)


def _forget_others(link: Path, version: Path) -> None:
    """Keep this one and the two before it: an older one may still run."""
    others = (path for path in (link.parent / "versions").iterdir() if path != version)
    for path in sorted(others, key=lambda path: path.lstat().st_mtime)[:-2]:
        path.unlink()
