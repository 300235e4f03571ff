"""Builds the agent's wheel from its source tree, apart from this computer; the same tree gives the same bytes.

Source: PEP 517 (``build_wheel``); setuptools reads ``SOURCE_DATE_EPOCH``; hermes-agent 0.20.0 to 0.21.5: ``setup.py``
refuses to build a wheel unless ``HERMES_NIX_BUILD`` is 1, since packagers have to bring what the wheel lacks.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from hermesops.errors import RefusedError
from hermesops.machines.release.builder.parts import read_agent
from hermesops.machines.release.interpreter import OwnPython
from hermesops.machines.release.requirements import Pin, parse
from hermesops.machines.release.source.archive import SourceFile, SourceTree
from hermesops.machines.release.source.isolation import PYTHON, Isolation
from hermesops.machines.release.source.project import Project
from hermesops.machines.release.source.upstream_lock import LOCK, build_pin

if TYPE_CHECKING:
    from hermesops.machines.image.packages.download import Pip

_EPOCH = (1980, 1, 1, 0, 0, 0)
_ENVIRONMENT = {
    "HERMES_NIX_BUILD": "1",
    "SOURCE_DATE_EPOCH": "315532800",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_MAX_WHEEL = 512 << 20
_BUILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
output = os.dup(1)
os.dup2(2, 1)
os.umask(0o022)
from setuptools import build_meta
folder = os.path.join(os.path.dirname(os.getcwd()), "wheels")
os.mkdir(folder)
name = build_meta.build_wheel(folder)
with open(os.path.join(folder, name), "rb") as wheel, os.fdopen(output, "wb") as target:
    while piece := wheel.read(1 << 20):
        target.write(piece)
"""


@dataclass(frozen=True)
class AgentWheel:
    """The agent's wheel, built on this computer from its source."""

    name: str
    content: bytes


def build_wheel(
    tree: SourceTree, tools: Mapping[str, SourceFile], interpreter: OwnPython | None, isolation: Isolation
) -> AgentWheel:
    """Build the agent's wheel.

    Args:
        tree: The agent's source.
        tools: The packages that build it, by path below a folder of packages.
        interpreter: Builds it; without one, this computer's Python.
        isolation: Keeps the build apart.

    Raises:
        RefusedError: The build failed, asked for a network, did not end in time, or made no wheel of the agent.
    """
    files = {f"source/{path}": file for path, file in tree.files.items()}
    files |= {f"tools/{path}": file for path, file in tools.items()}
    files |= interpreter.files if interpreter else {}
    python = f"{{place}}/{interpreter.program}" if interpreter else PYTHON
    words = [python, "-I", "-c", _BUILD, "{place}/tools"]
    output = isolation.run(f"the build of {tree.name}", words, files, _ENVIRONMENT)
    content = settled(tree.name, output)
    version = read_agent(f"the wheel of {tree.name}", content).version
    return AgentWheel(f"hermes_agent-{version}-py3-none-any.whl", content)


def settled(name: str, wheel: bytes) -> bytes:
    """A wheel with its files in order, without times and rights of the computer that built it.

    Raises:
        RefusedError: It is no wheel for every Python and processor, or too large.
    """
    content = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive, zipfile.ZipFile(content, "w") as target:
            infos = sorted(archive.infolist(), key=lambda info: info.filename)
            if sum(info.file_size for info in infos) > _MAX_WHEEL:
                raise RefusedError(f"{name} builds a wheel of more than {_MAX_WHEEL >> 20} MiB")
            for info in infos:
                _refuse_native(name, info, archive)
                entry = zipfile.ZipInfo(info.filename, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o755 if info.external_attr >> 16 & 0o100 else 0o644) << 16
                target.writestr(entry, archive.read(info))
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise RefusedError(f"the build of {name} made no wheel: {error}") from error
    return content.getvalue()


def _refuse_native(name: str, info: zipfile.ZipInfo, archive: zipfile.ZipFile) -> None:
    if info.filename.endswith(".dist-info/WHEEL") and b"\nTag: py3-none-any" not in archive.read(info):
        raise RefusedError(f"{name} builds a wheel for one Python or processor, and hermesops takes only py3-none-any")


def tool_pins(project: Project, lock: str, own: str) -> tuple[Pin, ...]:
    """A wheel of each package that a project is built with: as its own lock has it, else as hermesops does.

    Args:
        project: The project.
        lock: The text of its ``uv.lock``.
        own: Packages that hermesops locks for builds, as requirements with hashes.

    Raises:
        RefusedError: A package is in neither, in a version that the project takes.
    """
    names = {requirement.name for requirement in project.build}
    # Package wheel imports packaging.
    implied = [Requirement(name) for name in ("setuptools", "packaging") if name not in names]
    return tuple(_tool_pin(requirement, lock, parse(own)) for requirement in (*project.build, *implied))


def _tool_pin(requirement: Requirement, lock: str, own: Sequence[Pin]) -> Pin:
    if pin := build_pin(lock, requirement):
        return pin
    for pin in own:
        if pin.name == requirement.name and requirement.specifier.contains(pin.version):
            return pin
    raise RefusedError(
        f"the agent is built with {requirement}, and neither its {LOCK} nor hermesops has a hash for that",
        hint="add a wheel of it, with its hash, to build-tools.txt of hermesops",
    )


def fetched_tools(pins: Sequence[Pin], python: str, downloads: "Pip", scratch: Path) -> dict[str, SourceFile]:
    """The files of the packages that build a wheel, by path below a folder of packages.

    Raises:
        RefusedError: The index offers a file with another hash.
        UnavailableError: The index does not answer, or lacks one.
    """
    requirements, folder = scratch / "tools.txt", scratch / "tools"
    requirements.write_text("".join(pin.to_line() for pin in pins), encoding="utf-8")
    downloads.wheels(requirements, folder, python=python)
    files: dict[str, SourceFile] = {}
    for wheel in sorted(folder.iterdir()):
        with zipfile.ZipFile(wheel) as archive:
            files |= {name: SourceFile(archive.read(name)) for name in archive.namelist() if not name.endswith("/")}
    return files
