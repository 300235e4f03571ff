"""No modules import each other in a circle: an import in a function or for types alone counts like any other."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]


WIRING = "hermesops.app."
"""The one exception: the container and the functions that make its parts are one class in files by noun. They name each
other's types; when they are loaded, they import each other in one direction as all others."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    groups = circles(imports_of(ROOT, "hermesops"))
    assert {circle for circle in groups if not all(name.startswith(WIRING) for name in circle)} == set()


def test_the_wiring_is_loaded_in_one_direction() -> None:
    files = {_name(file, ROOT): file for file in sorted((ROOT / "hermesops" / "app").rglob("*.py"))}
    assert circles({name: {*_imported(file, files, loaded=True)} - {name} for name, file in files.items()}) == set()


def test_a_circle_is_found_wherever_its_imports_are(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("def f():\n    from pack import b\n")
    (package / "b.py").write_text("if TYPE_CHECKING:\n    from pack.c import C\n")
    (package / "c.py").write_text("import pack.a\n")
    (package / "d.py").write_text("import pack.a\n")
    assert circles(imports_of(tmp_path, "pack")) == {frozenset({"pack.a", "pack.b", "pack.c"})}


def imports_of(root: Path, package: str) -> dict[str, set[str]]:
    """What each module of a package imports of the same package, anywhere in its text."""
    files = {_name(file, root): file for file in sorted((root / package).rglob("*.py"))}
    return {name: {text for text in _imported(file, files) if text != name} for name, file in files.items()}


def circles(imports: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected parts of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in imports[name]:
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                groups.add(frozenset(stack[at:]))
            del stack[at:]

    for name in imports:
        if name not in index:
            visit(name)
    return groups


def _name(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(file: Path, modules: Mapping[str, Path], *, loaded: bool = False) -> Iterator[str]:
    """Modules that a module imports: anywhere in its text, or only those that are ``loaded`` with it."""
    tree = ast.parse(file.read_text())
    for node in tree.body if loaded else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules:
                    yield whole
                elif node.module in modules:
                    yield node.module
