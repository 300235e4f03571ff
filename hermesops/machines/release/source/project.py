"""What a source tree says of its project: the Pythons that it is for, and how its wheel is built. Pure."""

import tomllib
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from hermesops.errors import RefusedError
from hermesops.machines.release.builder.parts import PACKAGE
from hermesops.machines.release.source.archive import SourceTree

_PROJECT = "pyproject.toml"
_BACKEND = "setuptools.build_meta"


@dataclass(frozen=True)
class Project:
    """A project of Python.

    Attributes:
        pythons: The versions that it is for.
        build: What its wheel is built with.
    """

    pythons: SpecifierSet
    build: tuple[Requirement, ...]


def read_project(tree: SourceTree) -> Project:
    """Read a tree's ``pyproject.toml``.

    Raises:
        RefusedError: It is no project of the agent, or its wheel is built in a way that is not known here.
    """
    try:
        document = tomllib.loads(tree.text(_PROJECT))
        project, system = _table(document, "project"), _table(document, "build-system")
        if project.get("name") != PACKAGE:
            raise RefusedError(f"{tree.name} is the source of {str(project.get('name'))[:80]!r}, not of {PACKAGE}")
        if system.get("build-backend", _BACKEND) != _BACKEND or "backend-path" in system:
            raise RefusedError(
                f"{tree.name} is built by {str(system.get('build-backend'))[:80]!r}, and hermesops knows {_BACKEND}"
            )
        build = tuple(Requirement(str(text)) for text in system.get("requires", ["setuptools"]))
        return Project(SpecifierSet(str(project.get("requires-python", ""))), build)
    except (tomllib.TOMLDecodeError, InvalidRequirement, InvalidSpecifier, TypeError) as error:
        raise RefusedError(f"{_PROJECT} of {tree.name} cannot be read: {error}") from error


def fits(pythons: SpecifierSet, python: str) -> bool:
    """Whether a Python as ``3.11`` is among some versions, in one of its patch releases at least."""
    return any(pythons.contains(f"{python}.{patch}") for patch in (0, 99))


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name)
    if not isinstance(table, dict):
        raise TypeError(f"it has no table [{name}]")
    return table
