"""A program imports packages of hermesops' own requirements and of its extra alone, however deep its imports go."""

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hermesops.base.extras import Extra

ROOT = Path(__file__).parents[3]

PROGRAMS: Mapping[str, Extra | None] = {
    "hermesops.cli.main": None,
    "hermesops.localcloud.server.wiring": Extra.LOCAL,
    "hermesops.console.serve": Extra.CONSOLE,
    "hermesops.api.server": Extra.PLATFORM,
    "hermesops.connector.server": Extra.PLATFORM,
}
"""Modules that a program begins with, and the extra that its command requires first."""


@pytest.fixture(scope="module")
def imports() -> Mapping[str, frozenset[str]]:
    """Modules that are loaded with each module of hermesops, ours with the packages that they are in."""
    files = {_name(file): file for file in sorted((ROOT / "hermesops").rglob("*.py"))}
    return {name: frozenset(_loaded(file, files)) for name, file in files.items()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_needs_no_package_of_another_extra(program: str, imports: Mapping[str, frozenset[str]]) -> None:
    extra = PROGRAMS[program]
    allowed = _required("hermesops", frozenset({str(extra)} if extra else ()))
    distributions = metadata.packages_distributions()
    foreign = {
        (module, package)
        for module in _reached(program, imports)
        for package in imports[module] - imports.keys()
        if package not in sys.stdlib_module_names
        and not {canonicalize_name(name) for name in distributions.get(package, [package])} & allowed
    }
    assert foreign == set()


def _reached(program: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    reached, left = set[str](), [program]
    while left:
        module = left.pop()
        if module in imports and module not in reached:
            reached.add(module)
            left += imports[module]
    return reached


def _required(name: str, extras: frozenset[str]) -> set[str]:
    """Distributions that are installed with one, by their canonical names."""
    required, left = set[str](), [(name, extras)]
    visited = set[tuple[str, frozenset[str]]]()
    while left:
        wanted, of = left.pop()
        if (wanted, of) in visited:
            continue
        visited.add((wanted, of))
        required.add(canonicalize_name(wanted))
        try:
            lines = metadata.requires(wanted) or []
        except metadata.PackageNotFoundError:
            continue
        left += [
            (requirement.name, frozenset(requirement.extras))
            for requirement in map(Requirement, lines)
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in of | {""})
        ]
    return required


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _loaded(file: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name, files)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from _with_packages(whole if whole in files else node.module, files)


def _with_packages(module: str, files: Mapping[str, Path]) -> Iterator[str]:
    """A module of ours with the packages that it is in; of others the first name alone."""
    parts = module.split(".")
    if parts[0] != "hermesops":
        yield parts[0]
        return
    yield from (name for count in range(1, len(parts) + 1) if (name := ".".join(parts[:count])) in files)
